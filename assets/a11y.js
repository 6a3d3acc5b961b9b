// Small repairs of the theme for screen readers and keyboards (what the templates cannot reach).
addEventListener("DOMContentLoaded", () => {
  // The visible text of a hidden cell's summary is its name; the label of myst-nb says something else.
  document.querySelectorAll("summary[aria-label]").forEach((summary) => summary.removeAttribute("aria-label"));
});
