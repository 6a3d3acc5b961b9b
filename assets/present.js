// "Present" mode: page.html?present shows the built page as slides. Own code, no dependency.
// A slide is a section heading with what follows it; a block with the class or cell tag `newslide` starts another one.
(() => {
  if (!new URLSearchParams(location.search).has("present")) return;
  const words = document.documentElement.lang.startsWith("ko")
    ? { previous: "이전", next: "다음", notes: "노트", leave: "닫기", slide: "슬라이드" }
    : { previous: "Previous", next: "Next", notes: "Notes", leave: "Leave", slide: "Slide" };

  function slidesOf(section) {
    const slides = [];
    let current = [];
    slides.push(current);
    for (const block of section.children) {
      if (block.tagName === "SECTION") {
        slides.push(...slidesOf(block));
        current = null;
      } else if (!(block.tagName === "SPAN" && block.id)) {
        const starts = block.matches(".newslide, .tag_newslide");
        if (!current || starts) slides.push((current = []));
        current.push(block);
      }
    }
    return slides.filter((slide) => slide.length);
  }

  function button(label, act) {
    const made = Object.assign(document.createElement("button"), { type: "button", textContent: label });
    made.addEventListener("click", act);
    return made;
  }

  addEventListener("load", () => {
    const article = document.querySelector("article.bd-article");
    const section = article && article.querySelector("section");
    if (!section) return;
    const slides = slidesOf(section);
    let at = 0;

    const show = (wanted) => {
      at = Math.max(0, Math.min(slides.length - 1, wanted));
      document.querySelectorAll(".on-slide").forEach((element) => element.classList.remove("on-slide"));
      for (const block of slides[at]) {
        for (let e = block; e && e !== article; e = e.parentElement) e.classList.add("on-slide");
      }
      place.textContent = `${words.slide} ${at + 1} / ${slides.length}`;
      history.replaceState(null, "", `?present=${at + 1}`);
      scrollTo(0, 0);
      dispatchEvent(new Event("resize"));   // figures that were hidden measure themselves again
    };
    const notes = () => {
      const shown = document.body.classList.toggle("with-notes");
      toggle.setAttribute("aria-pressed", String(shown));
    };
    const leave = () => location.assign(location.pathname);

    const bar = Object.assign(document.createElement("nav"), { className: "present-bar", ariaLabel: "Slides" });
    const place = Object.assign(document.createElement("span"), { className: "present-place" });
    place.setAttribute("role", "status");
    const toggle = button(words.notes, notes);
    toggle.setAttribute("aria-pressed", "false");
    bar.append(button(words.previous, () => show(at - 1)), place, button(words.next, () => show(at + 1)), toggle, button(words.leave, leave));
    document.body.append(bar);
    document.body.classList.add("present");

    const root = document.scrollingElement;
    const down = () => {   // the rest of a long slide first, then the next slide
      if (root.scrollTop + innerHeight < root.scrollHeight - 8) scrollBy(0, innerHeight * 0.8);
      else show(at + 1);
    };
    const up = () => (root.scrollTop > 8 ? scrollBy(0, -innerHeight * 0.8) : show(at - 1));
    const keys = {
      ArrowRight: () => show(at + 1), PageDown: down, " ": down,
      ArrowLeft: () => show(at - 1), PageUp: up,
      Home: () => show(0), End: () => show(slides.length - 1), n: notes, Escape: leave,
    };
    addEventListener("keydown", (event) => {
      const origin = event.composedPath()[0];
      const taken = origin instanceof Element && origin.closest("input, textarea, select, button, summary, a, [contenteditable], [role=slider], [role=grid], [tabindex]:not(main)");
      const act = keys[event.key];
      if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.defaultPrevented && event.key !== "Escape") return;
      if (taken && event.key !== "Escape") {
        const own = taken.closest && taken.closest(".present-bar");
        if (!own || event.key === " ") return;   // a figure or field keeps its own keys
      }
      event.preventDefault();
      act();
    });
    show(Number(new URLSearchParams(location.search).get("present") || 1) - 1);
  });
})();
