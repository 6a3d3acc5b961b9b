// Walks all slides of an open page and reports what is wrong, independent of how the slides were cut: it looks at boxes,
// at text and at what can be scrolled. Returns { slides, faults, zooms }.
async () => {
  const article = document.querySelector("article.bd-article"), bar = document.querySelector(".present-bar");
  const stage = document.querySelector(".bd-article-container"), zoom = stage.currentCSSZoom;
  const faults = [], seen = new Map(), zooms = [1];
  const frames = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  const press = (key) => dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
  const place = () => document.querySelector(".present-place").textContent.match(/\d+/g).map(Number);
  const own = (node) => node.matches("style, script, .sr-only, mjx-assistive-mml, .speaker-notes, .headerlink");
  const name = (node) => `${node.tagName.toLowerCase()} “${(node.textContent || node.alt || "").trim().slice(0, 40)}”`;
  const real = Element.prototype.getBoundingClientRect;

  const speaks = (node) => node.nodeType === 3 || node.shadowRoot || node.matches("img, mjx-container");   // what carries content

  // Everything on the slide, elements and texts, as the browser shows it.
  function* shown(node) {
    if (own(node) || getComputedStyle(node).display === "none") return;
    yield node;
    if (node.tagName === "DETAILS" && !node.open) return void (yield* shown(node.querySelector("summary")));
    for (const child of node.childNodes) {
      if (child.nodeType === 3 && child.data.trim()) yield child;
      else if (child.nodeType === 1) yield* shown(child);
    }
  }

  press("Home");
  const [, slides] = place(), figures = [...article.querySelectorAll("*")].filter((node) => node.shadowRoot);
  for (let k = 1; k <= slides; k++) {
    const say = (text) => faults.push(`slide ${k}: ${text}`);
    if (figures.some((node) => node.offsetWidth)) await frames();
    if (place()[0] !== k) say(`the place says ${place()}`);
    const floor = real.call(bar).top, all = [...shown(article)], last = all.filter(speaks).at(-1);
    for (const node of all) {
      if (speaks(node)) seen.set(node, (seen.get(node) ?? 0) + 1);
      if (node.nodeType === 3) continue;
      const box = real.call(node);
      if (!box.width || !box.height) continue;
      if (box.top < -1 || box.left < -1 || box.right > innerWidth + 1 || box.bottom > floor + 1) say(`${name(node)} leaves the slide: ${[box.left, box.top, box.right, box.bottom].map(Math.round)}`);
      if (!node.closest(".math")) for (const part of [node, ...node.shadowRoot?.querySelectorAll(".figure") ?? []]) {
        const { overflowX, overflowY } = getComputedStyle(part);
        if (overflowX !== "visible" && part.scrollWidth > part.clientWidth + 2) say(`${name(node)} is ${part.scrollWidth - part.clientWidth} px too wide for its place`);
        if (overflowY !== "visible" && part.clientHeight && part.scrollHeight > part.clientHeight + 3) say(`${name(node)} is ${part.scrollHeight - part.clientHeight} px too high for its place`);
      }
      const scale = node.currentCSSZoom / zoom;
      if (scale < 0.999) zooms.push(scale);
      const size = parseFloat(getComputedStyle(node).fontSize) * scale;
      if (node.matches("section > p") && !node.closest(".cell") && size < 20 * 0.9) say(`${name(node)} has ${size.toFixed(1)} px`);
      if (node.matches("pre") && size < 18 * 0.7) say(`code of ${size.toFixed(1)} px`);
    }
    if (stage.scrollHeight > stage.clientHeight + 1 || stage.scrollWidth > stage.clientWidth + 1) say("the slide scrolls");
    const heading = last?.parentElement.closest("h1, h2, h3, h4, h5, h6");
    if (heading && heading.parentElement.children.length > 1) say(`${name(heading)} stands alone`);
    if (!last) say("empty");
    if (innerWidth > 1000 && Number(article.style.zoom || 1) < 0.9) say(`the whole slide had to shrink to ${article.style.zoom}`);
    const question = [...article.querySelectorAll(".predict")].find((node) => node.offsetWidth);
    if (question && !question.contains(last.parentElement)) say("the answer stands under its question");
    press("ArrowRight");
  }

  // Whatever the page would show without slides must have been on one of them.
  article.querySelectorAll(".off-slide").forEach((node) => node.classList.remove("off-slide"));
  for (const node of [...shown(article)].filter(speaks)) {
    const element = node.nodeType === 3 ? node.parentElement : node, times = seen.get(node) ?? 0;
    if (times !== 1 && !(times > 1 && element.closest("thead"))) faults.push(`${name(element)} is on ${times} slides`);
  }
  press("Home");
  return { slides, faults, smallest: Math.min(...zooms) };
}
