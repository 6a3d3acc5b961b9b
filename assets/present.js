// "Present" mode: page.html?present shows the built page as slides. This file only opens the mode; its parts are in
// present/ and present.css, which a normal page never loads.
(() => {
  const page = document.documentElement, here = document.currentScript.src;

  if (!new URLSearchParams(location.search).has("present")) {
    // The button starts at the section that is being read.
    addEventListener("click", ({ target }) => {
      const button = target.closest?.(".present-button");
      if (!button) return;
      const passed = [...document.querySelectorAll("article section[id] > :is(h2, h3)")].filter((h) => h.getBoundingClientRect().top < 160);
      button.href = passed.length && scrollY > 100 ? `?present&at=${encodeURIComponent(passed.at(-1).parentElement.id)}` : "?present";
    });
    return;
  }

  const add = (tag, attributes) => document.head.append(Object.assign(document.createElement(tag), attributes));
  const file = (name) => new URL(name, here).href;
  page.classList.add("presenting");
  page.style.visibility = "hidden";   // until the slides are cut: no flash of the page, or of half a slide
  setTimeout(() => { page.style.visibility = ""; }, 10_000);
  add("link", { rel: "stylesheet", href: file("present.css") });
  addEventListener("DOMContentLoaded", () => {   // not earlier: a script from the cache would run before the article is there
    for (const part of ["stage", "blocks", "paginate", "places", "panel", "dialogs", "show"]) add("script", { src: file(`present/${part}.js`), async: false });
  });
})();
