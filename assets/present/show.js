// Shows one slide at a time: bar, address, keys, touch, focus, paper.
(() => {
  const { stage, set, make, say, paginate, frames, nameParts, giveNotes, slideOf, panel, presenterWindow, keyList, overview, message } = window.bookSlides;
  const page = document.documentElement, body = document.body;
  const asked = new URLSearchParams(location.search);
  const article = document.querySelector("article.bd-article"), frame = document.querySelector(".bd-article-container");
  if (!frame || !article?.querySelector("section")) return void (page.style.visibility = "");   // a page without text, as it is
  const narrow = matchMedia("(max-width: 700px)");
  let slides = [], at = 0, size, typed = "", forget, written, presenter;

  // ---- one slide

  const chain = function* (node) { for (let e = node; e && e !== article; e = e.parentElement) yield e; };

  // Which slides every block is on: [element, [first, last]].
  function places() {
    const found = new Map();
    slides.forEach(({ units }, i) => units.forEach(({ nodes }) => nodes.forEach((node) => {
      for (const e of chain(node)) found.set(e, [Math.min(i, found.get(e)?.[0] ?? i), i]);
    })));
    return found;
  }
  let spans = new Map();

  // A slide's first and last block, with what is around them, lose their outer margins.
  function edges({ units }, on) {
    for (const e of chain(units[0].nodes[0])) e.classList.toggle("slide-first", on);
    for (const e of chain(units.at(-1).nodes.at(-1))) e.classList.toggle("slide-last", on);
  }

  function unveil(k) {
    if (slides[at]) edges(slides[at], false);
    for (const [node, [from, to]] of spans) node.classList.toggle("off-slide", k < from || k > to);
    edges(slides[k], true);
    slides.forEach(({ running }) => running?.classList.remove("on"));
    slides[k].running?.classList.add("on");
  }

  // A last resort, for what was measured wrongly or cannot get smaller: the whole slide is zoomed. Opened answers scroll.
  function settle() {
    article.style.zoom = "";
    for (let step = 0; step < 4 && !article.querySelector("details[open]:not(.off-slide)"); step++) {
      const over = frame.scrollHeight / frame.clientHeight;
      if (frame.scrollHeight <= frame.clientHeight + 1) break;
      article.style.zoom = Math.max(0.6, Number(article.style.zoom || 1) / over ** 1.05).toFixed(4);
    }
    frame.tabIndex = frame.scrollHeight > frame.clientHeight + 1 ? 0 : -1;
  }

  function show(wanted, { focus = true } = {}) {
    const k = Math.max(0, Math.min(slides.length - 1, wanted));
    unveil(k);
    at = k;
    frame.scrollTop = 0;
    settle();
    const slide = slides[at], inBar = document.activeElement?.closest?.(".present-bar, .present-panel");
    place.textContent = `${say("Slide", "슬라이드")} ${at + 1} / ${slides.length}`;
    spoken.textContent = inBar ? slide.title : "";
    progress.style.width = `${100 * (at + 1) / slides.length}%`;
    clearTimeout(written);
    written = setTimeout(address, 120);
    if (focus && !inBar) (slide.running ?? slide.units[0].nodes[0]).focus({ preventScroll: true });
    notes.update(slides, at);
    if (presenter?.window.closed === false) presenter.update(slides, at);
    dispatchEvent(new Event("resize"));   // figures that were hidden measure themselves again
    frames().then(() => at === k && settle());
  }

  // The address names the slide and, for another window, the part of the page it begins with.
  function address() {
    history.replaceState(null, "", `?present=${at + 1}&at=${encodeURIComponent(slides[at].atoms[0])}`);
  }

  // ---- all slides

  // Slide of a name like "section.3"; of `number` if that slide holds it too.
  function slideAt(name, number) {
    if (slides[number]?.atoms.includes(name)) return number;
    const found = slides.findIndex((slide) => slide.atoms.includes(name));
    if (found >= 0) return found;
    const node = name && document.getElementById(name.replace(/\.\d+$/, ""));
    return node && article.contains(node) ? slideOf(slides, node) : number;
  }

  const room = () => (body.classList.contains("with-notes") && !narrow.matches ? 0.74 : 1);

  async function layOut(name, number) {
    delete page.dataset.slides;
    size = stage();
    set(size);
    page.style.setProperty("--slide-content", `${size.content.height}px`);
    slides = await paginate(article, head, size.content.height * size.zoom);
    nameParts(article, slides);
    giveNotes(article, slides);
    spans = places();
    set(size, room());
    paper();
    at = 0;
    show(slideAt(name, number), { focus: false });
    page.dataset.slides = "ready";
  }

  let waiting;
  addEventListener("resize", (event) => {
    if (!event.isTrusted || !size) return;
    const now = stage(), same = Math.abs(now.width - size.width) < 1 && Math.abs(now.height - size.height) < 1;
    if (same) { size = now; set(size, room()); settle(); return; }
    clearTimeout(waiting);
    waiting = setTimeout(() => layOut(slides[at].atoms[0], at), 200);
  });

  // ---- bar and panel

  const go = (step) => show(at + step, { focus: true });
  const button = (className, label, act) => make("button", { type: "button", className, onclick: act }, make("span", { textContent: label }));
  const head = make("div", { className: "present-head" });
  const place = make("span", { className: "present-place" }), spoken = make("span", { className: "sr-only" });
  const progress = make("div", { className: "present-done" });
  const notes = panel(document, go);
  notes.root.hidden = true;
  const toggle = button("present-notes-button", say("Notes", "노트"), () => toggleNotes());
  toggle.setAttribute("aria-pressed", "false");
  const bar = make("nav", { className: "present-bar", "aria-label": say("Slides", "슬라이드") },
    button("present-previous", say("Previous", "이전"), () => go(-1)), make("span", { role: "status" }, place, " ", spoken),
    button("present-following", say("Next", "다음"), () => go(1)), toggle, button("present-help", say("Keys", "단축키"), () => keyList()),
    button("present-leave", say("Leave", "닫기"), () => leave()), make("div", { className: "present-progress", "aria-hidden": "true" }, progress));

  function toggleNotes() {
    const on = body.classList.toggle("with-notes");
    notes.root.hidden = !on;
    toggle.setAttribute("aria-pressed", String(on));
    set(size, room());
    settle();
    paper();
  }
  function leave() {
    location.assign(location.pathname + (at ? `#${slides[at].section.id}` : ""));
  }
  function openWindow() {
    if (presenter?.window.closed === false) return presenter.window.focus();
    presenter = presenterWindow(go, keydown);
    if (presenter) presenter.update(slides, at);
    else message(say("The browser blocked the second window. Allow pop-ups for this page, then press s again. The same notes are under n.",
      "브라우저가 새 창을 막았습니다. 이 페이지의 팝업을 허용한 뒤 s를 다시 누르십시오. 같은 노트가 n에 있습니다."));
  }
  const fullScreen = () => (document.fullscreenElement ? document.exitFullscreen() : page.requestFullscreen?.()?.catch(() => {}));
  const blank = () => body.classList.toggle("present-blank");

  // ---- keys and touch

  // The rest of a slide that scrolls (an opened answer) comes first.
  const down = () => (frame.scrollTop + frame.clientHeight < frame.scrollHeight - 8 ? frame.scrollBy(0, frame.clientHeight * 0.8) : go(1));
  const up = () => (frame.scrollTop > 8 ? frame.scrollBy(0, -frame.clientHeight * 0.8) : go(-1));
  const keys = { ArrowRight: () => go(1), ArrowLeft: () => go(-1), ArrowDown: down, ArrowUp: up, PageDown: down, PageUp: up, " ": down,
    Home: () => show(0), End: () => show(slides.length - 1), n: toggleNotes, s: openWindow, f: fullScreen, b: blank, ".": blank, o: () => overview(slides, at, show),
    h: () => keyList(), "?": () => keyList(), Escape: () => (body.classList.contains("present-blank") ? blank() : leave()) };
  const OWN = "input, textarea, select, button, summary, a, [contenteditable], [role=slider], [role=grid], [tabindex]:not([tabindex='-1'])";

  function keydown(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    const { key } = event, origin = event.composedPath()[0], field = origin.closest?.(OWN);
    const mine = !field || field === frame || (field.closest(".present-bar, .present-panel") && key !== " " && key !== "Enter");
    const act = typing(key) ?? (event.shiftKey && key === " " ? up : keys[key] ?? keys[key.toLowerCase()]);
    if (!act || (event.defaultPrevented && key !== "Escape")) return;
    if (!mine && key !== "Escape" && !(typed && key === "Enter")) return;   // a figure or field keeps its own keys
    event.preventDefault();
    act();
  }

  // Digits, then Enter: go to that slide.
  function typing(key) {
    clearTimeout(forget);
    if (/^\d$/.test(key)) return () => {
      typed = (typed + key).slice(-4);
      place.textContent = `→ ${typed}`;
      forget = setTimeout(() => { typed = ""; show(at); }, 4000);
    };
    const wanted = typed;
    typed = "";
    return wanted && key === "Enter" ? () => show(Number(wanted) - 1) : undefined;
  }

  let touch;
  const sideways = (path) => path.some((e) => e instanceof Element && (e.tagName.includes("-") || e.matches("input, select, textarea, .present-panel, dialog")
    || (e.scrollWidth > e.clientWidth + 2 && /auto|scroll/.test(getComputedStyle(e).overflowX) && e !== frame)));
  frame.addEventListener("touchstart", (event) => {
    const { clientX: x, clientY: y } = event.touches[0];
    touch = event.touches.length === 1 && !sideways(event.composedPath()) ? { x, y, when: event.timeStamp } : null;
  }, { passive: true });
  frame.addEventListener("touchend", (event) => {
    if (!touch) return;
    const { clientX, clientY } = event.changedTouches[0], dx = clientX - touch.x, dy = clientY - touch.y;
    if (Math.abs(dx) > 48 && Math.abs(dx) > 2 * Math.abs(dy) && event.timeStamp - touch.when < 900) go(dx < 0 ? 1 : -1);
    touch = null;
  });

  // A link to a place on this page turns to its slide.
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.("a[href^='#']"), node = link && document.getElementById(decodeURIComponent(link.hash.slice(1)));
    if (!node || !article.contains(node) || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    show(slideOf(slides, node));
  });

  // ---- paper: one slide a page, with its notes if the panel is open

  const sheet = document.head.appendChild(make("style", { media: "print" }));
  const paper = () => {
    const { width, height, side } = size, extra = body.classList.contains("with-notes") ? 240 : 0;
    sheet.textContent = `@page { size: ${Math.round(width)}px ${Math.round(height + 44 + extra)}px; margin: 40px ${Math.floor(side)}px 20px; }`;
  };
  const opened = new Set();   // answers the presenter has opened: other scripts open all for paper, slides print as they are seen
  article.addEventListener("toggle", ({ target }) => { if (target.open) opened.add(target); else opened.delete(target); }, true);
  const asSeen = () => article.querySelectorAll("details").forEach((details) => { details.open = opened.has(details); });
  addEventListener("beforeprint", () => {
    asSeen();
    body.classList.add("on-paper");
    article.style.zoom = "";
    spans.forEach((_, node) => node.classList.remove("off-slide"));
    edges(slides[at], false);
    slides.slice(1).forEach(({ units }) => units[0].nodes[0].classList.add("slide-break"));
    article.querySelectorAll("*").forEach((figure) => figure.shadowRoot && figure.draw?.());
  });
  addEventListener("afterprint", () => {
    body.classList.remove("on-paper");
    article.querySelectorAll(".slide-break").forEach((node) => node.classList.remove("slide-break"));
    asSeen();
    show(at, { focus: false });
  });

  // ---- begin

  addEventListener("load", async () => {
    try {
      body.classList.add("present");
      frame.prepend(head);
      body.append(notes.root, bar);
      set(stage());
      await window.MathJax?.startup?.promise;
      await document.fonts.ready;
      await layOut(asked.get("at") ?? "", Number(asked.get("present") || 1) - 1);
      addEventListener("keydown", keydown);
    } finally {
      page.style.visibility = "";
    }
  });
})();
