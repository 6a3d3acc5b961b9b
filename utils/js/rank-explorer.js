// <rank-explorer>: one attention map and its best approximation of a rank that the reader chooses.
// data: { title, hint, heads: [name], head, rank }; arrays: maps (heads, n, n), values (heads, n, d)
// The decomposition is computed here, so that what is stored (maps and values) is unique.
const percent = (v) => `${(100 * v).toFixed(v < 0.0995 || v > 0.9949 && v < 1 ? 1 : 0)} %`;
const dot = (a, b) => { let sum = 0; for (let i = 0; i < a.length; i++) sum += a[i] * b[i]; return sum; };

// One-sided Jacobi: turns the columns of a matrix (rows of n numbers, flat) until all are at right angles.
// Returns [{ sigma, column (sigma times left vector), right }], largest first; matrix = sum of column · rightᵀ.
function decompose(matrix, n) {
  const columns = Array.from({ length: n }, (_, j) => Float64Array.from({ length: n }, (_, i) => matrix[i * n + j]));
  const rights = Array.from({ length: n }, (_, j) => Float64Array.from({ length: n }, (_, i) => +(i === j)));
  for (let sweep = 0, turned = true; turned && sweep < 40; sweep++) {
    turned = false;
    for (let p = 0; p < n - 1; p++) for (let q = p + 1; q < n; q++) {
      const a = columns[p], b = columns[q], aa = dot(a, a), bb = dot(b, b), ab = dot(a, b);
      if (Math.abs(ab) <= 1e-10 * Math.sqrt(aa * bb) || aa * bb < 1e-28) continue;
      turned = true;
      const tau = (bb - aa) / (2 * ab), t = (tau < 0 ? -1 : 1) / (Math.abs(tau) + Math.hypot(1, tau)), c = 1 / Math.hypot(1, t), s = c * t;
      for (const [x, y] of [[a, b], [rights[p], rights[q]]]) for (let i = 0; i < n; i++) {
        const xi = x[i];
        x[i] = c * xi - s * y[i];
        y[i] = s * xi + c * y[i];
      }
    }
  }
  return columns.map((column, j) => ({ sigma: Math.sqrt(dot(column, column)), column, right: rights[j] })).sort((a, b) => b.sigma - a.sigma);
}

class RankExplorer extends BookElement {
  build() {
    const { data } = this;
    this.maps = unpack(data.arrays.maps);
    this.values = unpack(data.arrays.values);
    [, this.n] = this.maps.shape;
    this.width = this.values.shape[2];
    this.known = [];
    this.head = data.head;
    this.rank = data.rank;
    const select = el("select", { onchange: () => { this.head = +select.value; this.draw(); } },
      ...data.heads.map((name, i) => el("option", { value: i, selected: i === this.head, text: name })));
    this.slider = el("input", { type: "range", min: 1, max: this.n, step: 1, value: this.rank, oninput: () => this.turn(+this.slider.value) });
    this.output = el("output", { text: this.rank });
    this.canvases = ["P, all of it", ""].map((text) => {
      const canvas = el("canvas", { width: this.n, height: this.n, "aria-hidden": "true" }), name = el("figcaption", { text });
      return { canvas, name, node: el("figure", {}, name, canvas) };
    });
    this.bars = el("svg", { "aria-hidden": "true" });
    for (const type of ["pointerdown", "pointermove"]) this.bars.addEventListener(type, (event) => {
      if (type === "pointermove" && !event.buttons) return;
      const box = this.bars.getBoundingClientRect();
      this.turn(clamp(Math.ceil((event.clientX - box.left) / box.width * this.n), 1, this.n));
    });
    this.readout = el("p", { class: "readout", "aria-live": "polite" });
    this.box.append(...data.title ? [el("p", { class: "title" }, ...rich(data.title))] : [], el("p", { class: "hint", text: data.hint }),
      el("div", { class: "options controls" }, el("label", {}, el("span", { class: "muted", text: "map " }), select),
        el("label", {}, el("span", { class: "muted", text: "rank " }), this.slider, " ", this.output)),
      el("div", { class: "pair" }, ...this.canvases.map((c) => c.node)), this.scale = el("p", { class: "muted scale" }),
      el("p", { class: "muted bars-name", text: "singular values, largest first; kept ones in colour" }), this.bars, this.readout);
  }

  turn(rank) {
    this.rank = rank;
    this.slider.value = rank;
    this.draw();
  }

  // Everything about the chosen map that does not depend on the rank, computed once.
  parts() {
    const { n, width, head } = this;
    return this.known[head] ??= (() => {
      const map = this.maps.subarray(head * n * n, (head + 1) * n * n), value = this.values.subarray(head * n * width, (head + 1) * n * width);
      return { map, value, terms: decompose(map, n), whole: this.times(map, value) };
    })();
  }

  times(map, value) {
    const { n, width } = this, out = new Float64Array(n * width);
    for (let i = 0; i < n; i++) for (let j = 0; j < n; j++) for (let c = 0; c < width; c++) out[i * width + c] += map[i * n + j] * value[j * width + c];
    return out;
  }

  // The map of the present rank and what is left of the original.
  found() {
    const { n, width, rank } = this, { terms, value, whole } = this.parts();
    const map = new Float64Array(n * n);
    for (const { column, right } of terms.slice(0, rank)) for (let i = 0; i < n; i++) for (let j = 0; j < n; j++) map[i * n + j] += column[i] * right[j];
    const sum = (power, list) => list.reduce((total, { sigma }) => total + sigma ** power, 0);
    const share = (power) => sum(power, terms.slice(0, rank)) / sum(power, terms);
    const out = this.times(map, value), row = (a, i) => a.subarray(i * width, (i + 1) * width);
    let cosine = 0;
    for (let i = 0; i < n; i++) {
      const [a, b] = [row(out, i), row(whole, i)];
      cosine += dot(a, b) / Math.sqrt(dot(a, a) * dot(b, b) || Infinity) / n;
    }
    return { map, one: share(1), two: share(2), error: Math.sqrt(Math.max(0, 1 - share(2))), cosine };
  }

  paint(canvas, map) {
    const { n } = this, { back, amount, negative } = this.colours, pen = canvas.getContext("2d"), image = pen.createImageData(n, n);
    const [up, down] = [ramp(back, amount), ramp(back, negative)], pixels = new Uint32Array(image.data.buffer);
    for (let i = 0; i < n * n; i++) pixels[i] = (map[i] < 0 ? down : up)[clamp(Math.round(255 * Math.sqrt(Math.abs(map[i]))), 0, 255)];
    pen.putImageData(image, 0, 0);
  }

  draw() {
    if (!this.box.clientWidth) return;
    const { n, rank } = this, { map, terms } = this.parts(), found = this.found();
    this.output.textContent = rank;
    this.slider.setAttribute("aria-valuetext", `rank ${rank} of ${n}`);
    this.canvases[1].name.textContent = `rank ${rank} of ${n}`;
    this.paint(this.canvases[0].canvas, map);
    this.paint(this.canvases[1].canvas, found.map);
    const swatch = (colour) => el("span", { class: "ramp", style: `background:linear-gradient(90deg,var(--back),var(--${colour}))` });
    this.scale.replaceChildren("row = query, column = key; square root of the weight: 0 ", swatch("amount"), " 1; below 0 ", swatch("negative"), " −1");
    const height = 64, step = 10;
    this.bars.setAttribute("viewBox", `0 0 ${n * step} ${height}`);
    this.bars.setAttribute("preserveAspectRatio", "none");
    this.bars.replaceChildren(el("rect", { class: "ground", x: 0, y: 0, width: n * step, height }), ...terms.map(({ sigma }, i) => {
      const tall = Math.max(1, sigma / terms[0].sigma * height);
      return el("rect", { class: i < rank ? "kept" : "left", x: i * step + 1, y: height - tall, width: step - 2, height: tall });
    }));
    const item = (name, value) => el("span", { class: "item" }, `${name} `, el("b", { text: value }));
    this.readout.replaceChildren(item("Σσ kept", percent(found.one)), " ", item("Σσ² kept", percent(found.two)), " ",
      item("error of the map", percent(found.error)), " ", item("cosine of the outputs", found.cosine.toFixed(2)), " ",
      item("numbers stored", `${2 * n * rank} instead of ${n * n}`));
  }
}
RankExplorer.style = `
  select { max-width: 100%; background: var(--back); border: 1px solid var(--null); border-radius: 3px; padding: .2em .3em; min-height: 28px; }
  .pair { display: flex; flex-wrap: wrap; gap: .6em 1.6em; margin: .6em 0 .2em; }
  figure { margin: 0; flex: 1 1 7rem; max-width: 21rem; min-width: 0; }
  figcaption { font-weight: 600; }
  canvas { display: block; width: 100%; aspect-ratio: 1; image-rendering: pixelated; outline: 1px solid color-mix(in srgb, var(--null) 45%, transparent); }
  .ramp { display: inline-block; width: 3.5em; height: .8em; vertical-align: baseline; outline: 1px solid color-mix(in srgb, var(--null) 45%, transparent); }
  .bars-name { margin-top: .5em; }
  svg { display: block; width: 100%; max-width: 44rem; height: 4rem; cursor: ew-resize; touch-action: pan-y; }
  .ground { fill: transparent; }
  .kept { fill: var(--query); }
  .left { fill: var(--null); opacity: .45; }
  .readout { margin: .4em 0 0; font-variant-numeric: tabular-nums; }
  .item { display: inline-block; margin-right: 1.1em; }`;
if (!customElements.get("rank-explorer")) customElements.define("rank-explorer", RankExplorer);
