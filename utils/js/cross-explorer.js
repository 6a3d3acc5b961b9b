// <cross-explorer>: one cross head at a time, read from the source or from the target side; rows shifted by one on demand.
// data: { title, hint, source: [piece], target: [piece], links: [[target, source]], layers, layer, head, shift, word, shifts: [text],
//   reference }; arrays: weights (layers, heads, rows, source), uint8 square roots. Row t has read target token t − 1.
const LINE = 26; // height of a word, in pixels

class CrossExplorer extends BookElement {
  build() {
    const { data } = this, codes = unpack(data.arrays.weights), [layers, heads, rows, columns] = codes.shape;
    Object.assign(this, { heads, rows, columns, layer: data.layer, head: data.head, shift: data.shift });
    this.weights = Float64Array.from(codes, (c) => (c / 254) ** 2);
    for (let r = 0; r < layers * heads * rows; r++) {
      const row = this.weights.subarray(r * columns, (r + 1) * columns), sum = row.reduce((a, b) => a + b) || 1;
      row.forEach((w, i) => { row[i] = w / sum; });
    }
    this.linked = new Set(data.links.map(([t, s]) => `${t} ${s}`));
    this.at = ["target", data.word];
    const number = (name, count, value, label) => {
      const select = el("select", { "aria-label": name, onchange: () => { this[name] = +select.value; this.draw(); } },
        ...Array.from({ length: count }, (_, i) => el("option", { value: i, selected: i === value, text: label(i) })));
      return el("label", {}, el("span", { class: "muted", text: `${name} ` }), select);
    };
    const group = `shift-${Math.random()}`;
    const shifts = data.shifts.map((text, i) => el("label", {}, el("input", { type: "radio", name: group, checked: i === this.shift,
      onchange: () => { this.shift = i; this.draw(); } }), ` ${text}`));
    this.words = {};
    const column = (side, name) => {
      this.words[side] = data[side].map((text, i) => el("button", { type: "button", class: "word", tabindex: -1, text,
        onclick: () => this.choose(side, i), onfocus: () => this.choose(side, i),
        onpointerenter: (event) => event.pointerType === "mouse" && this.choose(side, i) }));
      return el("div", { class: `side ${side}`, role: "group", "aria-label": name }, el("p", { class: "head", text: name }), ...this.words[side]);
    };
    this.lines = el("svg", { class: "lines", "aria-hidden": "true" });
    this.lists = el("div", { class: "lists" }, column("source", "source, read"), this.lines, column("target", "target"));
    this.lists.addEventListener("keydown", (event) => this.key(event));
    this.canvas = el("canvas", { "aria-hidden": "true" });
    for (const type of ["pointermove", "pointerdown"]) this.canvas.addEventListener(type, (event) => {
      if (type === "pointermove" && event.pointerType !== "mouse") return;
      const box = this.canvas.getBoundingClientRect();
      this.choose("target", clamp(Math.floor((event.clientY - box.top) / box.height * data.target.length), 0, data.target.length - 1));
    });
    this.readout = el("p", { class: "readout", "aria-live": "polite" });
    this.count = el("p", { class: "muted" });
    this.box.append(...data.title ? [el("p", { class: "title" }, ...rich(data.title))] : [], el("p", { class: "hint", text: data.hint }),
      el("div", { class: "options controls" }, number("layer", layers, this.layer, (i) => `${data.layers[i]}`), number("head", heads, this.head, String),
        el("fieldset", {}, el("legend", { text: "row that" }), ...shifts)),
      el("div", { class: "panes" }, this.lists, el("div", { class: "map" }, el("p", { class: "head", text: "map: row = target, column = source" }), this.canvas,
        el("p", { class: "muted" }, "square root of the weight: 0 ", el("span", { class: "ramp" }), " 1; ring: linked by ", data.reference), this.count)),
      this.readout);
  }

  // Weight of target token t on source piece s: row t writes it, row t + 1 has read it.
  weight(t, s) {
    return this.weights[((this.layer * this.heads + this.head) * this.rows + t + this.shift) * this.columns + s];
  }

  choose(side, index) {
    if (this.at[0] === side && this.at[1] === index) return;
    this.at = [side, index];
    this.draw();
  }

  key(event) {
    let [side, index] = this.at;
    const other = side === "source" ? "target" : "source", count = this.words[side].length;
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) index = clamp(index + step, 0, count - 1);
    else if (event.key === "Home") index = 0;
    else if (event.key === "End") index = count - 1;
    else if (event.key === (side === "source" ? "ArrowRight" : "ArrowLeft")) [side, index] = [other, this.best()];
    else return;
    event.preventDefault();
    this.choose(side, index);
    this.words[side][index].focus();
  }

  // The word of the other side with most weight.
  best() {
    const list = this.partners();
    return list.reduce((best, w, i) => w > list[best] ? i : best, 0);
  }

  partners() {
    const [side, index] = this.at, { source, target } = this.data;
    return side === "target" ? source.map((_, s) => this.weight(index, s)) : target.map((_, t) => this.weight(t, index));
  }

  draw() {
    if (!this.box.clientWidth) return;
    const { data, colours } = this, [side, index] = this.at, list = this.partners();
    const other = side === "source" ? "target" : "source";
    for (const each of ["source", "target"]) this.words[each].forEach((node, i) => {
      const here = each === side && i === index, share = each === other ? list[i] : 0;
      node.tabIndex = here ? 0 : -1;
      node.setAttribute("aria-pressed", here);
      node.style.background = here ? "" : `color-mix(in srgb, var(--cross) ${Math.round(45 * share)}%, transparent)`;
      node.classList.toggle("here", here);
    });
    const width = this.lines.clientWidth || 60, y = (i) => LINE * (i + 1.5);
    const rows = Math.max(data.source.length, data.target.length) + 1;
    this.lines.setAttribute("viewBox", `0 0 ${width} ${rows * LINE}`);
    this.lines.style.height = `${rows * LINE}px`;
    const drawn = [];
    data.target.forEach((_, t) => data.source.forEach((_, s) => {
      const w = this.weight(t, s), on = (side === "target" ? t : s) === index;
      if (w < (on ? 0.02 : 0.15)) return;
      drawn.push([on, el("line", { x1: 0, x2: width, y1: y(s), y2: y(t), class: on ? "on" : "off", "stroke-width": (0.5 + 4 * w).toFixed(2) })]);
    }));
    this.lines.replaceChildren(...drawn.sort((a, b) => a[0] - b[0]).map(([, node]) => node));
    this.paint(colours);
    const order = list.map((w, i) => [w, i]).sort((a, b) => b[0] - a[0]).filter(([w], i) => !i || i < 3 && w >= 0.005).map(([w, i]) => `${data[other][i]} ${w.toFixed(2)}`);
    const what = side === "target" ? `The row that ${data.shifts[this.shift]} “${data.target[index]}” reads ` : `“${data.source[index]}” is read most in the rows of `;
    this.readout.replaceChildren(what, el("b", { text: order[0] }), `${order.slice(1).map((text) => `, ${text}`).join("")}.`);
    const hit = data.links.filter(([t]) => this.linked.has(`${t} ${this.top(t)}`)), asked = new Set(data.links.map(([t]) => t));
    this.count.textContent = `This head hits ${new Set(hit.map(([t]) => t)).size} of ${asked.size} links in these rows.`;
  }

  // The source piece with most weight, the end token (last column) aside.
  top(t) {
    let best = 0;
    for (let s = 1; s < this.columns - 1; s++) if (this.weight(t, s) > this.weight(t, best)) best = s;
    return best;
  }

  paint({ back, cross, ink }) {
    const { data } = this, [side, index] = this.at, [w, h] = [data.source.length, data.target.length], cell = 16, pen = this.canvas.getContext("2d");
    const shades = ramp(back, cross), css = (word) => `rgb(${word & 255} ${word >> 8 & 255} ${word >> 16 & 255})`;
    this.canvas.width = w * cell;
    this.canvas.height = h * cell;
    for (let t = 0; t < h; t++) for (let s = 0; s < w; s++) {
      pen.fillStyle = css(shades[Math.round(255 * Math.sqrt(this.weight(t, s)))]);
      pen.fillRect(s * cell, t * cell, cell, cell);
      if (!this.linked.has(`${t} ${s}`)) continue;
      for (const [colour, thick] of [[back, 4], [ink, 1.6]]) {
        pen.strokeStyle = colour;
        pen.lineWidth = thick;
        pen.beginPath();
        pen.arc((s + 0.5) * cell, (t + 0.5) * cell, 5, 0, 7);
        pen.stroke();
      }
    }
    pen.strokeStyle = ink;
    pen.lineWidth = 2;
    pen.strokeRect(...side === "target" ? [1, index * cell + 1, w * cell - 2, cell - 2] : [index * cell + 1, 1, cell - 2, h * cell - 2]);
  }
}
CrossExplorer.style = `
  select { background: var(--back); border: 1px solid var(--null); border-radius: 3px; padding: .2em .3em; min-height: 28px; }
  .panes { display: flex; flex-wrap: wrap; gap: .4em 2em; margin-top: .5em; align-items: flex-start; }
  .lists { display: flex; flex: 1 1 17rem; max-width: 26rem; min-width: 0; }
  .side { display: flex; flex-direction: column; flex: 0 1 auto; min-width: 0; }
  .source { text-align: right; }
  .head { margin: 0; height: ${LINE}px; line-height: ${LINE}px; white-space: nowrap; color: var(--null); font-size: .92em; }
  .word { height: ${LINE}px; line-height: ${LINE - 2}px; border: 0; border-radius: 3px; background: none; padding: 0 .5em; text-align: inherit; cursor: pointer; white-space: nowrap; }
  .target .word { text-align: left; }
  .here { outline: 2px solid var(--cross); outline-offset: -2px; font-weight: 600; }
  .lines { flex: 1 1 4rem; min-width: 3.5rem; align-self: flex-start; overflow: visible; }
  line { stroke: var(--cross); }
  .off { opacity: .18; }
  .map { flex: 0 1 15rem; min-width: 0; }
  canvas { display: block; max-width: 100%; touch-action: manipulation; outline: 1px solid color-mix(in srgb, var(--null) 45%, transparent); }
  .ramp { display: inline-block; width: 3.5em; height: .8em; background: linear-gradient(90deg, var(--back), var(--cross)); outline: 1px solid color-mix(in srgb, var(--null) 45%, transparent); }
  .readout { margin: .5em 0 0; min-height: 1.5em; font-variant-numeric: tabular-nums; }`;
if (!customElements.get("cross-explorer")) customElements.define("cross-explorer", CrossExplorer);
