// <collapse-explorer>: the tokens of a text as points, layer by layer, with skip, MLP and LayerNorm switched.
// data: { title, hint, labels: [token], names: [part], parts: [on], depth }
// arrays: points (8, layers + 1, n, 2), logs (8, layers + 1); combination = 4 · no skip + 2 · no MLP + 1 · no LayerNorm
const FLOOR = -12;
const shownResidual = (log) => log <= FLOOR ? "below 10⁻¹²" : log > -2 ? (10 ** log).toFixed(log > -1 ? 2 : 3) : (10 ** log).toExponential(1).replace("e-", " · 10⁻").replace(/⁻(\d+)$/, (_, d) => "⁻" + [...d].map((c) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[c]).join(""));

class CollapseExplorer extends BookElement {
  build() {
    const { data } = this;
    this.points = unpack(data.arrays.points);
    this.logs = unpack(data.arrays.logs);
    [, this.layers, this.n] = this.points.shape;
    this.reach = 1.1 * this.points.reduce((most, v) => Math.max(most, Math.abs(v)), 0.1);
    this.parts = [...data.parts];
    this.depth = data.depth;
    const boxes = data.names.map((name, i) => {
      const box = el("input", { type: "checkbox", checked: this.parts[i], onchange: () => { this.parts[i] = box.checked; this.draw(); } });
      return el("label", {}, box, ` ${name}`);
    });
    this.slider = el("input", { type: "range", min: 0, max: this.layers - 1, step: 1, value: this.depth, oninput: () => this.go(+this.slider.value) });
    this.output = el("output", { text: this.depth });
    this.cloud = el("svg", { class: "cloud", viewBox: `${-this.reach} ${-this.reach} ${2 * this.reach} ${2 * this.reach}`, "aria-hidden": "true" });
    this.ghosts = data.labels.map(() => el("circle", { class: "ghost", r: 0.016 * this.reach }));
    this.dots = data.labels.map((label) => el("circle", { class: /^\[.*\]$/.test(label) ? "dot special" : "dot", r: 0.025 * this.reach }));
    this.words = data.labels.map((label) => el("text", { class: "word", text: label }));
    this.cloud.append(...this.ghosts, ...this.words, ...this.dots);
    this.curve = el("svg", { class: "curve", "aria-hidden": "true" });
    for (const type of ["pointerdown", "pointermove"]) this.curve.addEventListener(type, (event) => {
      if (type === "pointermove" && !event.buttons) return;
      const box = this.curve.getBoundingClientRect(), { left, right } = this.frame;
      this.go(clamp(Math.round((event.clientX - box.left - left) / (box.width - left - right) * (this.layers - 1)), 0, this.layers - 1));
    });
    this.readout = el("p", { class: "readout", "aria-live": "polite" });
    this.box.append(...data.title ? [el("p", { class: "title" }, ...rich(data.title))] : [], el("p", { class: "hint", text: data.hint }),
      el("div", { class: "options controls" }, el("fieldset", {}, el("legend", { text: "attention with" }), ...boxes),
        el("label", {}, el("span", { class: "muted", text: "layers passed " }), this.slider, " ", this.output)),
      el("div", { class: "panes" },
        el("div", { class: "pane" }, el("p", { class: "muted", text: "tokens; grey: at the start" }), this.cloud),
        el("div", { class: "pane" }, el("p", { class: "muted", text: "residual by layers passed, logarithmic" }), this.curve)), this.readout);
  }

  go(depth) {
    this.depth = depth;
    this.slider.value = depth;
    this.draw();
  }

  combination() {
    return this.parts.reduce((sum, on, i) => sum + (on ? 0 : 4 >> i), 0);
  }

  // [[x, y]] of the tokens at a depth of the present combination.
  places(depth) {
    const start = (this.combination() * this.layers + depth) * this.n * 2;
    return Array.from({ length: this.n }, (_, i) => [this.points[start + 2 * i], -this.points[start + 2 * i + 1]]);
  }

  log(depth) {
    return this.logs[this.combination() * this.layers + depth];
  }

  draw() {
    if (!this.box.clientWidth) return;
    const now = this.places(this.depth), first = this.places(0);
    const put = (node, [x, y]) => { node.style.transform = `translate(${x}px, ${y}px)`; };
    now.forEach((place, i) => { put(this.dots[i], place); put(this.ghosts[i], first[i]); });
    this.write(now);
    this.output.textContent = this.depth;
    const log = this.log(this.depth), on = this.data.names.filter((_, i) => this.parts[i]);
    this.slider.setAttribute("aria-valuetext", `layer ${this.depth} of ${this.layers - 1}, residual ${shownResidual(log)}`);
    const say = log > Math.log10(0.5) ? "Tokens are apart." : log > -2 ? "Tokens are falling together." : log > -6 ? "One point: the tokens are nearly equal." : "Equal for all practical purposes.";
    this.readout.replaceChildren(`Attention${on.length ? ` with ${on.join(" + ")}` : " alone"}, after ${this.depth} of ${this.layers - 1} layers: residual `,
      el("b", { text: shownResidual(log) }), `. ${say}`);
    this.chart();
  }

  // Labels where they do not cover each other; none on a heap.
  write(now) {
    const taken = [], size = 2 * this.reach / Math.max(this.cloud.clientWidth, 1) * 11;
    this.words.forEach((word, i) => {
      const [x, y] = now[i], wide = this.data.labels[i].length * 0.56 * size, gap = 0.04 * this.reach, left = x + wide + gap > this.reach ? x - wide - gap : x + gap;
      const box = [left, y - 0.6 * size, left + wide, y + 0.6 * size];
      const free = this.log(this.depth) > -1.2 && taken.every((o) => box[2] < o[0] || box[0] > o[2] || box[3] < o[1] || box[1] > o[3])
        && now.every(([a, b], j) => j === i || a < box[0] - gap / 2 || a > box[2] + gap / 2 || b < box[1] || b > box[3]);
      if (free) taken.push(box);
      word.setAttribute("visibility", free ? "visible" : "hidden");
      word.setAttribute("font-size", size);
      word.setAttribute("x", left);
      word.setAttribute("y", y + 0.35 * size);
    });
  }

  chart() {
    const width = this.curve.clientWidth || 300, height = 220, left = 44, right = 12, top = 10, bottom = 28;
    this.frame = { left, right };
    const x = (layer) => left + layer / (this.layers - 1) * (width - left - right), y = (log) => top + log / FLOOR * (height - top - bottom);
    const logs = Array.from({ length: this.layers }, (_, i) => this.log(i));
    const line = logs.map((v, i) => `${i ? "L" : "M"}${x(i).toFixed(1)} ${y(v).toFixed(1)}`).join("");
    const label = (text, at, up, anchor) => el("text", { x: at, y: up, "text-anchor": anchor, class: "axis", text });
    this.curve.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.curve.replaceChildren(el("rect", { class: "ground", x: 0, y: 0, width, height }),
      ...[[0, "1"], [-4, "10⁻⁴"], [-8, "10⁻⁸"], [-12, "10⁻¹²"]].flatMap(([v, text]) => [label(text, left - 6, y(v) + 4, "end"),
        el("line", { class: "rule", x1: left, x2: width - right, y1: y(v), y2: y(v) })]),
      ...logs.map((_, i) => label(i, x(i), height - 8, "middle")),
      el("line", { class: "here", x1: x(this.depth), x2: x(this.depth), y1: top, y2: height - bottom }),
      el("path", { class: "line", d: line }), ...logs.map((v, i) => el("circle", { class: i === this.depth ? "mark now" : "mark", cx: x(i), cy: y(v), r: i === this.depth ? 6 : 3.5 })));
  }
}
CollapseExplorer.style = `
  .panes { display: flex; flex-wrap: wrap; gap: .6em 1.6em; margin: .6em 0 .2em; }
  .pane { flex: 1 1 15rem; max-width: 26rem; min-width: 0; }
  .cloud { display: block; width: 100%; aspect-ratio: 1; outline: 1px solid color-mix(in srgb, var(--null) 45%, transparent); }
  .curve { display: block; width: 100%; height: 220px; cursor: ew-resize; touch-action: pan-y; }
  .ghost { fill: var(--null); opacity: .4; }
  .dot { fill: var(--query); transition: transform .35s; }
  .special { fill: var(--sink); }
  .word { fill: var(--ink); }
  .ground { fill: transparent; }
  .axis { fill: var(--null); font-size: 12px; }
  .rule { stroke: var(--null); stroke-opacity: .25; }
  .here { stroke: var(--null); stroke-dasharray: 3 3; }
  .line { fill: none; stroke: var(--query); stroke-width: 2; }
  .mark { fill: var(--query); }
  .readout { margin: .4em 0 0; min-height: 3em; font-variant-numeric: tabular-nums; }
  @media (prefers-reduced-motion: reduce) { .dot { transition: none; } }`;
if (!customElements.get("collapse-explorer")) customElements.define("collapse-explorer", CollapseExplorer);
