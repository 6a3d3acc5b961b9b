// Shared by every element of the book: theme, colours, small helpers. Each output carries its own copy and works alone.
// PALETTE (the values of palette.json) is written in front of this file by utils/figures.py.
const clamp = (value, low, high) => Math.max(low, Math.min(high, value));

// el("button", { class: "x", onclick: f, text: "label" }, ...children): text is always text, never markup.
function el(name, attributes = {}, ...children) {
  const svg = ["svg", "g", "path", "line", "rect", "circle", "text"].includes(name);
  const node = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "text") node.textContent = value;
    else if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (value === true) node.setAttribute(key, "");
    else if (value !== false && value != null) node.setAttribute(key, value);
  }
  node.append(...children);
  return node;
}

// Plain text with `code`, W_K, _{sub} and ^{super}, as nodes.
function rich(text) {
  return text.split(/(`[^`]+`|[_^]\{[^}]+\}|(?<=[A-Za-z])_[A-Za-z0-9](?![A-Za-z0-9_]))/).filter(Boolean).map((part) =>
    /^`.+`$/.test(part) ? el("code", { text: part.slice(1, -1) })
      : /^_./.test(part) ? el("sub", { text: part.replace(/^_\{?|\}$/g, "") })
        : /^\^\{/.test(part) ? el("sup", { text: part.slice(2, -1) }) : part);
}

function unpack({ base64, shape, type }) {
  const bytes = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
  const values = type === "uint8" ? bytes : new (type === "int16" ? Int16Array : Float32Array)(bytes.buffer);
  return Object.assign(values, { shape });
}

// Colours: CSS text → [r, g, b, alpha] in 0…255, through a canvas, so that every notation works.
const pen = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
function rgb(css) {
  pen.canvas.width = pen.canvas.height = 1;
  pen.fillStyle = css;
  pen.fillRect(0, 0, 1, 1);
  return [...pen.getImageData(0, 0, 1, 1).data];
}
const linear = (c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
const gamma = (c) => 255 * (c <= 0.0031308 ? 12.92 * c : 1.055 * Math.max(c, 0) ** (1 / 2.4) - 0.055);
function oklab(css) {
  const [r, g, b] = rgb(css).map(linear);
  const l = Math.cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b);
  const m = Math.cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b);
  const s = Math.cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b);
  return [0.2104542553 * l + 0.793617785 * m - 0.0040720468 * s, 1.9779984951 * l - 2.428592205 * m + 0.4505937099 * s,
    0.0259040371 * l + 0.7827717662 * m - 0.808675766 * s];
}
// 256 colours from one CSS colour to another in equal steps of perceived lightness (OKLab), as one word per pixel.
function ramp(from, to) {
  const [a, b] = [oklab(from), oklab(to)];
  return Uint32Array.from({ length: 256 }, (_, i) => {
    const [L, A, B] = a.map((v, k) => v + (b[k] - v) * i / 255);
    const [l, m, s] = [L + 0.3963377774 * A + 0.2158037573 * B, L - 0.1055613458 * A - 0.0638541728 * B,
      L - 0.0894841775 * A - 1.291485548 * B].map((v) => v ** 3);
    const [r, g, bl] = [4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
      -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s, -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s]
      .map((v) => clamp(Math.round(gamma(v)), 0, 255));
    return (255 << 24 | bl << 16 | g << 8 | r) >>> 0;
  });
}

// The colour behind an element: the first opaque ancestor, else the browser's own page colour.
function backdrop(node) {
  for (let n = node; n; n = n.parentNode ?? n.host) {
    const css = n instanceof Element && getComputedStyle(n).backgroundColor;
    if (css && rgb(css)[3] > 250) return css;
  }
  const probe = document.body.appendChild(el("i", { style: "display:none;background:Canvas" }));
  const css = getComputedStyle(probe).backgroundColor;
  probe.remove();
  return css;
}

// Base: shows the fallback until it comes within a screen of what is seen, or is printed; then reads the JSON and builds.
// Keeps the fallback if anything fails; follows theme, size and print.
class BookElement extends HTMLElement {
  connectedCallback(again = true) {
    this.source = this.querySelector(':scope > script[type="application/json"]');
    if (!this.source) return void (again && setTimeout(() => this.connectedCallback(false)));
    this.root ??= this.attachShadow({ mode: "open" });
    if (!this.box) this.root.append(el("style", { text: BookElement.host }), el("slot"));
    this.stop = new AbortController();
    addEventListener("beforeprint", () => { this.start(); this.recolour("#ffffff"); this.draw(); }, { signal: this.stop.signal });
    if (this.box || !window.IntersectionObserver) return this.start();
    this.near = new IntersectionObserver((seen) => seen.some((entry) => entry.isIntersecting) && this.start(),
      { rootMargin: "100% 0px", scrollMargin: "300px 0px" });  // the second for scrolling boxes, as in JupyterLab
    this.near.observe(this);
  }

  // Builds what is not built yet, and follows the page from now on; does nothing the second time.
  start() {
    if (this.observers) return;
    this.near?.disconnect();
    const before = this.getBoundingClientRect();
    if (!this.box) this.make();
    this.watch();
    // What is read below a figure stays in its place, also where the browser does not see to it.
    if (before.bottom < 0 && !CSS.supports("overflow-anchor", "auto")) scrollBy(0, this.offsetHeight - before.height);
  }

  make() {
    // Keys that move inside a figure do not also turn the page around it (present mode, JupyterLab).
    this.root.addEventListener("keydown", (event) => /^(Arrow|Page|Home|End| $)/.test(event.key) && event.stopPropagation());
    const fallback = [...this.root.childNodes];
    try {
      this.data = JSON.parse(this.source.textContent);
      this.box = el("div", { class: "figure" });
      this.root.replaceChildren(el("style", { text: BookElement.host + BookElement.style + this.constructor.style }), this.box);
      this.recolour();
      this.build();
    } catch (error) {
      this.root.replaceChildren(...fallback);
      this.start = this.recolour = this.draw = () => {};
      throw error;
    }
  }

  watch() {
    const options = { signal: this.stop.signal };
    const later = () => { this.recolour(); this.draw(); setTimeout(() => this.recolour() && this.draw(), 400); };
    const resized = () => this.box.clientWidth !== this.seen && requestAnimationFrame(() => { this.seen = this.box.clientWidth; this.draw(); });
    this.observers = [new ResizeObserver(resized), new MutationObserver(later)];
    this.observers[0].observe(this.box);
    for (const node of [document.documentElement, document.body])
      this.observers[1].observe(node, { attributes: true, attributeFilter: ["class", "style", "data-theme", "data-mode",
        "data-jp-theme-light", "data-jp-theme-name", "data-vscode-theme-kind"] });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", later, options);
    addEventListener("afterprint", later, options);
    this.recolour();
    this.seen = this.box.clientWidth;
    this.draw();
  }

  disconnectedCallback() {
    this.stop?.abort();
    this.near?.disconnect();
    this.observers?.forEach((o) => o.disconnect());
    this.observers = null;
  }

  // Reads the theme around the element; true if a colour has changed since the last time.
  recolour(paper) {
    const back = paper ?? backdrop(this), dark = oklab(back)[0] < 0.5, style = getComputedStyle(this);
    const colours = { back, ink: paper ? "#000000" : style.color };
    for (const [name, value] of Object.entries(PALETTE))
      colours[name] = (!paper && style.getPropertyValue(`--ai-${name}`).trim()) || value[dark ? "dark" : "light"];
    const key = JSON.stringify(colours);
    if (key === this.colourKey) return false;
    this.colourKey = key;
    this.colours = colours;
    for (const [name, value] of Object.entries(colours)) this.box.style.setProperty(`--${name}`, value);
    return true;
  }
}
BookElement.host = ":host { display: block; font-size: .92em; line-height: 1.45; }";
BookElement.style = `
  * { box-sizing: border-box; }
  .figure { color: var(--ink); font-family: inherit; max-width: 60rem; overflow-x: auto; padding: 2px; }
  .title { font-weight: 600; font-size: 1.08em; margin: 0 0 .1em; }
  .hint, .muted { color: var(--null); margin: 0; }
  button, input, select { font: inherit; color: inherit; }
  :focus-visible { outline: 2px solid var(--query); outline-offset: 1px; border-radius: 2px; }
  label { cursor: pointer; max-width: 100%; padding-block: 1px; }
  input { accent-color: var(--query); }
  sub, sup { line-height: 0; }
  input[type=range] { vertical-align: middle; max-width: 60vw; }
  fieldset { border: 0; padding: 0; margin: 0; display: inline-flex; flex-wrap: wrap; align-items: center; gap: .1em .5em; }
  legend { float: left; padding: 0; margin-right: .5em; color: var(--null); }
  .options { display: flex; flex-wrap: wrap; gap: .35em 1.4em; align-items: center; }
  .hidden { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
  @media print { .options, .hint, .controls { display: none !important; } .figure { background: #fff; print-color-adjust: exact; } }`;
