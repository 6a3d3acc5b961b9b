// The blocks of an article: what can be cut, what is too large, and how it is made to fit.
(() => {
  const { make, measured } = window.bookSlides;
  const HEADING = "h1, h2, h3, h4, h5, h6";
  const WHOLE = `p, pre, figure, table, img, svg, canvas, details, dt, dd, .math, .highlight, .pst-scrollable-table-container, ${HEADING}`;
  const SMALLEST = { figure: 0.6, code: 0.75, other: 0.7 };   // nothing is zoomed below this: beyond, the whole slide is

  const away = (node) => node.matches("style, script, template, .speaker-notes") || (node.tagName === "SPAN" && !node.textContent.trim());
  const speaks = (node) => [...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim());
  const whole = (node) => node.matches(WHOLE) || node.tagName.includes("-") || speaks(node);

  // The parts a block can be cut into, each a list of elements that stay together (terms with their meaning).
  function parts(node) {
    if (whole(node)) return [];
    const children = [...node.children].filter((child) => !away(child));
    if (node.tagName !== "DL") return children.map((child) => [child]);
    return children.reduce((groups, child) => {
      if (groups.length && groups.at(-1).at(-1).tagName === "DT") groups.at(-1).push(child);
      else groups.push([child]);
      return groups;
    }, []);
  }

  // A table that would get too small is cut between rows; its head stands on every slide.
  function rows(node, limit) {
    const table = node.matches("table") ? node : node.matches(".pst-scrollable-table-container") && node.querySelector("table");
    if (!table || measured.call(node).height * SMALLEST.other < limit) return [];
    return [...table.querySelectorAll(":scope > tbody > tr")].map((row) => [row]);
  }

  // Edges of a list of elements, or null if nothing of them is seen.
  function boxed(nodes) {
    const boxes = nodes.map((node) => measured.call(node)).filter((box) => box.height);
    return boxes.length ? { top: Math.min(...boxes.map((b) => b.top)), bottom: Math.max(...boxes.map((b) => b.bottom)) } : null;
  }

  const zoomOf = (node) => node.currentCSSZoom ?? 1;
  const kind = (node) => (node.tagName.includes("-") && !node.matches("mjx-container") ? "figure" : node.matches("pre, :has(pre)") ? "code" : "other");
  const SCROLLS = "pre, .output, .pst-scrollable-table-container, div.math mjx-container";

  // How many times wider than its place the widest thing in a block is (1: it fits).
  function width(node) {
    const boxes = [node, ...node.querySelectorAll(SCROLLS), ...(node.shadowRoot?.querySelectorAll(".figure") ?? [])].filter((b) => !b.closest("details:not([open])"));
    return Math.max(1, ...boxes.filter((b) => b.clientWidth).map((b) => (b.scrollWidth > b.clientWidth + 1 ? b.scrollWidth / b.clientWidth : 1)));
  }

  function zoom(node, over) {
    const wanted = Number(node.style.zoom || 1) / over * 0.995;
    const least = SMALLEST[kind(node)];
    if (node.style.zoom && Number(node.style.zoom) <= least) return false;
    node.style.zoom = Math.max(least, wanted).toFixed(4);
    node.classList.add("scaled");
    return true;
  }

  // A picture gets lower, its caption stays as large as it is; all else that cannot be cut is zoomed. True if changed.
  function shrink(nodes, limit) {
    const box = boxed(nodes), [node] = nodes;
    if (!box || nodes.length > 1) return false;
    const tall = (box.bottom - box.top) / limit, picture = node.matches("figure, :has(> figure)") && node.querySelector("img");
    if (tall > 1.002 && picture) {
      const now = measured.call(picture).height, wanted = Math.max(now * 0.4, now - (tall - 1) * limit - 1);
      picture.style.maxHeight = `${(wanted / zoomOf(picture)).toFixed(1)}px`;
      picture.style.width = "auto";
      return now - wanted > 1;
    }
    const wide = width(node);
    if (wide > 1.2 && node.matches("pre, :has(pre)") && !node.classList.contains("wraps")) {   // long lines are broken rather than made tiny
      node.classList.add("wraps");
      return true;
    }
    const over = Math.max(tall, wide);
    return over > 1.002 && zoom(node, over);
  }

  // Code and a few lines it prints, and a claim, are rather a little smaller than on two slides.
  const squeezes = (node, over) => over < 1.33 && (node.matches(".claim") || (node.matches(".cell") && !node.querySelector("figure, img, .text_html, details")));

  // Figures that stand upright on a page lie down on a slide: their list beside their picture.
  const BESIDE = { "attention-explorer": `@media (min-width: 700px) {
    .figure { position: relative; max-width: none; overflow: visible; margin-left: 490px; min-height: 750px; }
    :is(.title, .hint) { margin-left: -490px; }
    :is(.top, .readout, .scale) { position: absolute; left: -490px; width: 464px; }
    .readout { bottom: 86px; } .scale { bottom: 0; } .main { margin-top: 0; } }` };
  function layDown(article) {
    for (const [tag, style] of Object.entries(BESIDE)) article.querySelectorAll(tag).forEach(({ shadowRoot }) => {
      if (shadowRoot?.querySelector(".figure") && !shadowRoot.querySelector(".on-slides")) shadowRoot.append(make("style", { className: "on-slides", textContent: style }));
    });
  }

  Object.assign(window.bookSlides, { layDown, squeezes, HEADING, away, parts, rows, boxed, shrink });
})();
