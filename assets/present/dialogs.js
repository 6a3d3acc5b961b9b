// What lies over the slides for a moment: the list of keys, the overview, a message.
(() => {
  const { make, say } = window.bookSlides;

  function dialog(name, label, ...content) {
    const shut = make("button", { type: "button", className: "present-shut", textContent: say("Close", "닫기"), onclick: () => box.close() });
    const box = make("dialog", { className: `present-dialog ${name}`, "aria-label": label }, make("h2", { textContent: label }), ...content, shut);
    box.addEventListener("click", (event) => { if (event.target === box) box.close(); });
    box.addEventListener("close", () => box.remove());
    document.body.append(box);
    box.showModal();
    return box;
  }

  const KEYS = [
    ["→ ↓ PageDown Space", say("next slide", "다음 슬라이드")], ["← ↑ PageUp Shift+Space", say("previous slide", "이전 슬라이드")],
    ["Home End", say("first, last slide", "첫, 마지막 슬라이드")], ["7 Enter", say("go to slide 7", "7번 슬라이드로")],
    ["o", say("overview", "목차")], ["n", say("notes and clock", "노트와 시계")], ["s", say("notes in a second window", "노트를 다른 창에")],
    ["b", say("blank screen", "빈 화면")], ["f", say("full screen", "전체 화면")], ["? h", say("these keys", "이 목록")], ["Esc", say("leave", "닫기")],
  ];

  function keyList() {
    const lines = KEYS.flatMap(([keys, does]) => [
      make("dt", {}, ...keys.split(" ").flatMap((key, i) => [i ? " " : "", make("kbd", { textContent: key })])), make("dd", { textContent: does })]);
    return dialog("present-keys", say("Keys", "단축키"), make("dl", {}, ...lines),
      make("p", { textContent: say("On a touch screen: swipe left or right. A figure or field in use keeps its own keys.", "터치 화면: 좌우로 밀기. 사용 중인 그림과 입력란은 자기 키를 씁니다.") }));
  }

  // One line for each heading, with the slides it has.
  function overview(slides, at, go) {
    const starts = slides.map((slide, i) => i).filter((i) => !i || slides[i].section !== slides[i - 1].section);
    const lines = starts.map((start, i) => {
      const end = (starts[i + 1] ?? slides.length) - 1, here = at >= start && at <= end;
      const jump = make("button", { type: "button", onclick: () => { box.close(); go(start); } },
        make("span", { className: "present-number", textContent: start === end ? start + 1 : `${start + 1}–${end + 1}` }), " ", slides[start].title);
      if (here) jump.setAttribute("aria-current", "true");
      return make("li", {}, jump);
    });
    const box = dialog("present-overview", say("Overview", "목차"), make("ol", {}, ...lines));
    box.querySelector("[aria-current]")?.focus();
    return box;
  }

  const message = (text) => dialog("present-message", say("Notes in a second window", "노트를 다른 창에"), make("p", { textContent: text }));

  Object.assign(window.bookSlides, { keyList, overview, message });
})();
