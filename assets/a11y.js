// Small repairs of the theme for screen readers and keyboards (what the templates cannot reach).
addEventListener("DOMContentLoaded", () => {
  // The visible text of a hidden cell's summary is its name; the label of myst-nb says something else.
  document.querySelectorAll("summary[aria-label]").forEach((summary) => summary.removeAttribute("aria-label"));
  // The arrow that opens a part of the table of contents is named after it.
  const below = document.documentElement.lang.startsWith("ko") ? "하위 페이지: " : "Pages below: ";
  document.querySelectorAll("nav.bd-links summary").forEach((arrow) => arrow.setAttribute("aria-label", below + arrow.closest("li").querySelector("a").textContent.trim()));
  // A bibliography is marked as a list whose children are not list items: plain blocks read better.
  document.querySelectorAll(".citation-list, .citation-list .citation, .citation-list .label, .citation-list a").forEach((part) => part.removeAttribute("role"));
  // Korean glossary terms are read with a Korean voice (and styled by their language).
  document.querySelectorAll("dl.glossary dt").forEach((term) => { if (/\p{Script=Hangul}/u.test(term.textContent)) term.lang = "ko"; });
});

// What is wider than its place scrolls by itself: the keyboard reaches it, also in a detail that was closed, and it has a name.
addEventListener("DOMContentLoaded", () => {
  const names = document.documentElement.lang.startsWith("ko")
    ? { pre: "코드", ".pst-scrollable-table-container": "표", ".cell_output > .output": "출력" }
    : { pre: "Code", ".pst-scrollable-table-container": "Table", ".cell_output > .output": "Output" };
  const mark = ({ target }) => {
    const scrolls = target.scrollWidth > target.clientWidth || target.scrollHeight > target.clientHeight;
    target.tabIndex = scrolls ? 0 : -1;
    if (!scrolls) return ["role", "aria-label"].forEach((name) => target.removeAttribute(name));
    target.setAttribute("role", "group");
    target.setAttribute("aria-label", names[Object.keys(names).find((kind) => target.matches(kind))]);
  };
  const observer = new ResizeObserver((entries) => entries.forEach(mark));
  document.querySelectorAll(`article :is(${Object.keys(names).join(", ")})`).forEach((part) => observer.observe(part));
});

// From a disk the search cannot read the pages, so it lists them without an excerpt.
if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;

// Paper is white and cannot be clicked: print in the light theme, with every answer and detail open.
(() => {
  const page = document.documentElement;
  let theme, opened;
  addEventListener("beforeprint", () => {
    theme = page.dataset.theme;
    page.dataset.theme = "light";
    opened = [...document.querySelectorAll("article details:not([open])")];
    opened.forEach((details) => { details.open = true; });
  });
  addEventListener("afterprint", () => {
    page.dataset.theme = theme;
    opened.forEach((details) => { details.open = false; });
  });
})();
