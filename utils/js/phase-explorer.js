// <phase-explorer>: a training run step by step: two attention maps, and three curves over the run.
// data: { title, hint, steps: [step of each pair of maps], at, tokens, names: [2], labels: [3], x: [step of each point] }
// arrays: maps (steps, 2, n, n) coded weights, lines (3, points)
class PhaseExplorer extends BookElement {
  build() {
    const { data } = this;
    this.maps = unpack(data.arrays.maps);
    this.lines = unpack(data.arrays.lines);
    this.n = this.maps.shape[3];
    this.at = data.at;
    this.slider = el("input", { type: "range", min: 0, max: data.steps.length - 1, step: 1, value: this.at, oninput: () => this.go(+this.slider.value) });
    this.output = el("output", {});
    this.canvases = data.names.map((name) => el("canvas", { width: this.n, height: this.n, role: "img", "aria-label": name }));
    this.chart = el("svg", { "aria-hidden": "true" });
    for (const type of ["pointerdown", "pointermove"]) this.chart.addEventListener(type, (event) => {
      if (type === "pointermove" && !event.buttons) return;
      const box = this.chart.getBoundingClientRect(), last = data.x[data.x.length - 1];
      const step = ((event.clientX - box.left) / box.width * 640 - 30) / 600 * last;
      this.go(data.steps.reduce((best, each, i) => Math.abs(each - step) < Math.abs(data.steps[best] - step) ? i : best, 0));
    });
    this.readout = el("p", { class: "readout", "aria-live": "polite" });
    const swatch = (colour) => el("span", { class: "ramp", style: `background:linear-gradient(90deg,var(--back),var(--${colour}))` });
    this.box.append(el("p", { class: "title" }, ...rich(data.title)), el("p", { class: "hint", text: data.hint }),
      el("div", { class: "options controls" }, el("label", {}, el("span", { class: "muted", text: "step " }), this.slider, " ", this.output)),
      el("div", { class: "pair" }, ...data.names.map((name, i) => el("figure", {}, el("figcaption", { text: name }), this.canvases[i]))),
      el("p", { class: "muted" }, `text: ${data.tokens.join(" ")}; row = query, column = key; square root of the weight: 0 `, swatch("amount"), " 1"),
      this.chart, this.readout);
  }

  go(at) {
    this.at = at;
    this.slider.value = at;
    this.draw();
  }

  // The place of a step among the points of the curves.
  point() {
    return this.data.x.indexOf(this.data.steps[this.at]);
  }

  draw() {
    if (!this.box.clientWidth) return;
    const { data, n, at } = this, step = data.steps[at], { back, amount } = this.colours, shades = ramp(back, amount);
    this.output.textContent = step;
    this.slider.setAttribute("aria-valuetext", `step ${step}`);
    this.canvases.forEach((canvas, i) => {
      const pen = canvas.getContext("2d"), image = pen.createImageData(n, n), pixels = new Uint32Array(image.data.buffer);
      const first = (at * 2 + i) * n * n;
      for (let k = 0; k < n * n; k++) pixels[k] = shades[clamp(Math.round(this.maps[first + k] / 254 * 255), 0, 255)];
      pen.putImageData(image, 0, 0);
    });
    const count = data.x.length, last = data.x[count - 1], px = (x) => 30 + 600 * x / last, py = (y) => 150 - 140 * y;
    const colours = ["ink", "query", "value"], dashes = [null, "7 4", "2 3"];
    const size = 13 * clamp(640 / (this.chart.clientWidth || 640), 1, 2.1), low = 152 + size;
    this.chart.setAttribute("viewBox", `0 0 640 ${low + 5}`);
    const text = (x, y, label, anchor = "middle") => el("text", { x, y, "font-size": size, "text-anchor": anchor, text: label });
    const line = (k) => Array.from({ length: count }, (_, i) => `${i ? "L" : "M"}${px(data.x[i]).toFixed(1)} ${py(this.lines[k * count + i]).toFixed(1)}`).join("");
    this.chart.replaceChildren(el("rect", { class: "ground", x: 0, y: 0, width: 640, height: low + 5 }),
      el("path", { class: "axis", d: `M30 ${py(1)}V${py(0)}H630` }), text(26, py(0), "0", "end"), text(26, py(1) + 0.6 * size, "1", "end"),
      text(30, low, "0"), text(px(last / 2), low, `${last / 2}`), text(630, low, `${last}`, "end"),
      ...[0, 1, 2].map((k) => el("path", { class: "line", d: line(k), style: `stroke:var(--${colours[k]})`, "stroke-dasharray": dashes[k] })),
      el("line", { class: "now", x1: px(step), x2: px(step), y1: py(1), y2: py(0) }));
    const here = this.point();
    this.readout.replaceChildren(el("span", { class: "item" }, "step ", el("b", { text: step })), " ", ...data.labels.flatMap((label, k) => [
      el("span", { class: "item" }, el("span", { class: "key", style: `border-top:3px ${["solid", "dashed", "dotted"][k]} var(--${colours[k]})` }), ` ${label} `,
        el("b", { text: here < 0 ? "–" : this.lines[k * count + here].toFixed(2) })), " "]));
  }
}
PhaseExplorer.style = `
  .pair { display: flex; flex-wrap: wrap; gap: .6em 1.6em; margin: .6em 0 .2em; }
  figure { margin: 0; flex: 1 1 7rem; max-width: 17rem; min-width: 0; }
  figcaption { font-weight: 600; }
  canvas { display: block; width: 100%; aspect-ratio: 1; image-rendering: pixelated; outline: 1px solid color-mix(in srgb, var(--null) 45%, transparent); }
  .ramp { display: inline-block; width: 3.5em; height: .8em; vertical-align: baseline; outline: 1px solid color-mix(in srgb, var(--null) 45%, transparent); }
  .key { display: inline-block; width: 1.8em; vertical-align: middle; }
  svg { display: block; width: 100%; max-width: 44rem; margin-top: .6em; cursor: ew-resize; touch-action: pan-y; }
  text { fill: var(--null); }
  .ground { fill: transparent; }
  .axis { fill: none; stroke: var(--null); }
  .line { fill: none; stroke-width: 2.2; }
  .now { stroke: var(--ink); stroke-width: 1.2; opacity: .7; }
  .readout { margin: .4em 0 0; font-variant-numeric: tabular-nums; }
  .item { display: inline-block; margin-right: 1.1em; }`;
if (!customElements.get("phase-explorer")) customElements.define("phase-explorer", PhaseExplorer);
