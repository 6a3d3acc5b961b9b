// Small repairs of the theme for screen readers and keyboards (what the templates cannot reach).
addEventListener("DOMContentLoaded", () => {
  // The visible text of a hidden cell's summary is its name; the label of myst-nb says something else.
  document.querySelectorAll("summary[aria-label]").forEach((summary) => summary.removeAttribute("aria-label"));
  // A bibliography is marked as a list whose children are not list items: plain blocks read better.
  document.querySelectorAll(".citation-list, .citation-list .citation, .citation-list .label, .citation-list a").forEach((part) => part.removeAttribute("role"));
  // Korean glossary terms are read with a Korean voice (and styled by their language).
  document.querySelectorAll("dl.glossary dt").forEach((term) => { if (/\p{Script=Hangul}/u.test(term.textContent)) term.lang = "ko"; });
});

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
