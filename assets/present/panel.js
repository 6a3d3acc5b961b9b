// The presenter's panel: notes of the slide, the clock, what comes next. One piece of code builds it beside the slides
// (`n`) and in a window of its own (`s`).
(() => {
  const { make, say } = window.bookSlides;
  const clock = { kept: 0, since: null };
  const elapsed = () => clock.kept + (clock.since === null ? 0 : performance.now() - clock.since);
  const two = (n) => String(n).padStart(2, "0");
  const shown = (ms) => `${two(Math.floor(ms / 60000))}:${two(Math.floor(ms / 1000) % 60)}`;

  function startOrPause() {
    if (clock.since === null) clock.since = performance.now();
    else [clock.kept, clock.since] = [elapsed(), null];
  }
  function reset() {
    clock.kept = 0;
    if (clock.since !== null) clock.since = performance.now();
  }

  // "12 minutes to here" is the plan up to the note, "8 minutes" the plan for its part.
  function plan(notes) {
    const [, minutes, here] = notes.map((note) => note.textContent).join("\n").match(/(\d+)\s*minutes?( (?:up )?to here)?/) ?? [];
    if (!minutes) return "";
    return here ? say(`planned to here: ${minutes} min`, `여기까지 계획: ${minutes}분`) : say(`planned for this part: ${minutes} min`, `이 부분 계획: ${minutes}분`);
  }

  function copyOf(note, of) {
    const copy = of.importNode(note, true);
    copy.className = "present-note";
    copy.querySelectorAll("[id]").forEach((node) => node.removeAttribute("id"));
    return copy;
  }

  // → { root, update(slides, at) } in the document `of`; `turn(step)` turns the slides.
  function panel(of, turn) {
    const button = (label, act) => make("button", { of, type: "button", textContent: label, onclick: act });
    const time = make("span", { of, className: "present-time", role: "timer" });
    const start = button("", () => { startOrPause(); tick(); });
    const tick = () => {
      time.textContent = shown(elapsed());
      start.textContent = clock.since !== null ? say("Pause", "멈춤") : clock.kept ? say("Go on", "계속") : say("Start", "시작");
    };
    const planned = make("span", { of, className: "present-plan" });
    const place = make("h2", { of, className: "present-where" });
    const next = make("p", { of, className: "present-next" });
    const notes = make("div", { of, className: "present-notes", tabIndex: 0, role: "region", "aria-label": say("Notes of this slide", "이 슬라이드의 노트") });
    const root = make("aside", { of, className: "present-panel", "aria-label": say("Speaker notes", "발표자 노트") },
      make("div", { of, className: "present-clock" }, time, start, button(say("Reset", "처음부터"), () => { reset(); tick(); }), planned),
      place, notes, next,
      make("div", { of, className: "present-turn" }, button(say("Previous", "이전"), () => turn(-1)), button(say("Next", "다음"), () => turn(1))));
    tick();
    setInterval(tick, 500);

    const update = (slides, at) => {
      const slide = slides[at], after = slides[at + 1];
      place.textContent = `${at + 1} / ${slides.length} · ${slide.title}`;
      planned.textContent = plan(slide.notes);
      next.textContent = after ? `${say("Next:", "다음:")} ${after.title}${after.title === slide.title ? say(" (continued)", " (계속)") : ""}` : say("This is the last slide.", "마지막 슬라이드입니다.");
      notes.replaceChildren(...slide.notes.length ? slide.notes.map((note) => copyOf(note, of)) : [make("p", { of, className: "present-none", textContent: say("No notes for this slide.", "이 슬라이드에는 노트가 없습니다.") })]);
    };
    return { root, update };
  }

  // The same panel in a second window, written by this page: it works from file:// too. Null if the browser refuses.
  function presenterWindow(turn, keys) {
    const opened = window.open("", "presenter", "popup,width=760,height=640");
    if (!opened) return null;
    const of = opened.document, page = document.documentElement;
    of.title = `${say("Notes", "노트")} · ${document.title}`;
    of.documentElement.lang = page.lang;
    Object.assign(of.documentElement.dataset, { theme: page.dataset.theme, mode: page.dataset.mode });
    of.head.replaceChildren(...[...document.querySelectorAll("link[rel=stylesheet], style")].map((style) => {
      const copy = of.importNode(style, true);
      if (style.sheet && style.tagName === "STYLE") copy.textContent = [...style.sheet.cssRules].map((rule) => rule.cssText).join("\n");
      if (style.href) copy.href = style.href;
      return copy;
    }));
    const made = panel(of, turn);
    of.body.className = "presenter-window";
    of.body.replaceChildren(make("main", { of }, made.root));
    of.addEventListener("keydown", keys);
    addEventListener("pagehide", () => opened.close());
    opened.focus();
    return { ...made, window: opened };
  }

  Object.assign(window.bookSlides, { panel, presenterWindow });
})();
