// <memory-explorer>: write pairs into a memory of two dimensions by hand and see what is read back.
// data: { title, hint, names: [pair], angles: [degrees], values: [[number]], written, rules: [[id, label]], rule, sharpness }
const signed = (v, digits = 2) => (Math.abs(v) < 0.5 * 10 ** -digits ? 0 : v).toFixed(digits).replace("-", "−");
const dot = (a, b) => a.reduce((sum, x, i) => sum + x * b[i], 0);
const STEP = 5, RADIUS = 78, MIDDLE = 110;

class MemoryExplorer extends BookElement {
  build() {
    const { data } = this;
    this.angles = [...data.angles];
    this.written = data.written;
    this.rule = data.rule;
    const count = el("output", { text: this.written });
    const pairs = el("input", { type: "range", min: 1, max: data.names.length, step: 1, value: this.written, "aria-label": "pairs written" });
    pairs.addEventListener("input", () => { count.textContent = this.written = +pairs.value; this.draw(); });
    const rules = data.rules.map(([id, label]) => el("label", {}, el("input", { type: "radio", name: "rule", checked: id === this.rule,
      onchange: () => { this.rule = id; this.draw(); } }), ` ${label}`));
    this.svg = el("svg", { viewBox: `0 0 ${2 * MIDDLE} ${2 * MIDDLE}`, class: "dial" });
    this.arrows = data.names.map((name, i) => this.arrow(name, i));
    this.svg.append(el("circle", { cx: MIDDLE, cy: MIDDLE, r: RADIUS, class: "rim" }), ...this.arrows);
    this.svg.addEventListener("pointerdown", (event) => this.grab(event));
    this.svg.addEventListener("pointermove", (event) => this.held !== undefined && this.turn(this.held, this.angle(event)));
    for (const type of ["pointerup", "pointercancel"]) this.svg.addEventListener(type, () => { this.held = undefined; });
    this.store = el("div", { class: "store" });
    this.list = el("div", { class: "list" });
    this.readout = el("p", { class: "readout", "aria-live": "polite" });
    this.box.append(el("p", { class: "title" }, ...rich(data.title)), el("p", { class: "hint", text: data.hint }),
      el("div", { class: "options controls" }, el("fieldset", {}, el("legend", { text: "rule" }), ...rules),
        el("label", {}, el("span", { class: "muted", text: "pairs written " }), pairs, " ", count)),
      el("div", { class: "panes" }, el("div", {}, el("p", { class: "head", text: "Keys" }), this.svg), this.store, this.list), this.readout);
  }

  arrow(name, index) {
    const group = el("g", { class: "arrow", tabindex: 0, role: "slider", "aria-label": `key ${name}, angle`, "aria-valuemin": 0, "aria-valuemax": 355 },
      el("line", { x1: MIDDLE, y1: MIDDLE }), el("path", { d: "M0 0 L-11 -5 L-11 5 Z" }), el("text", { text: name, "text-anchor": "middle" }));
    group.addEventListener("keydown", (event) => {
      const by = { ArrowLeft: STEP, ArrowUp: STEP, ArrowRight: -STEP, ArrowDown: -STEP, PageUp: 45, PageDown: -45 }[event.key];
      if (event.key === "Home") this.turn(index, 0);
      else if (by) this.turn(index, this.angles[index] + by);
      else return;
      event.preventDefault();
    });
    return group;
  }

  // Degrees from the middle of the dial to the pointer, against the clock.
  angle(event) {
    const box = this.svg.getBoundingClientRect();
    return Math.atan2(box.top + box.height / 2 - event.clientY, event.clientX - box.left - box.width / 2) * 180 / Math.PI;
  }

  grab(event) {
    const at = this.angle(event), gap = (i) => Math.abs((this.angles[i] - at + 540) % 360 - 180);
    const near = [...Array(this.written).keys()].reduce((best, i) => gap(i) <= gap(best) ? i : best, 0);
    if (gap(near) > 30) return;
    event.preventDefault();
    this.held = near;
    this.svg.setPointerCapture(event.pointerId);
    this.arrows[near].focus();
    this.turn(near, at);
  }

  turn(index, degrees) {
    this.angles[index] = (Math.round(degrees / STEP) * STEP % 360 + 360) % 360;
    this.draw();
  }

  // { memory (d_value × 2) or null, found: [value read back], errors: [each], total }
  state() {
    const keys = this.angles.slice(0, this.written).map((a) => [Math.cos(a * Math.PI / 180), Math.sin(a * Math.PI / 180)]);
    const values = this.data.values.slice(0, this.written);
    let memory = values[0].map(() => [0, 0]), found;
    if (this.rule === "softmax") {
      found = keys.map((q) => {
        const weights = keys.map((k) => Math.exp(this.data.sharpness * (dot(k, q) - 1))), sum = weights.reduce((a, b) => a + b);
        return values[0].map((_, r) => weights.reduce((total, w, j) => total + w / sum * values[j][r], 0));
      });
      memory = null;
    } else {
      keys.forEach((k, i) => {
        const old = this.rule === "delta" ? memory.map((row) => dot(row, k)) : values[i].map(() => 0);
        memory = memory.map((row, r) => row.map((w, c) => w + (values[i][r] - old[r]) * k[c]));
      });
      found = keys.map((q) => memory.map((row) => dot(row, q)));
    }
    const miss = found.map((row, i) => dot(row.map((x, r) => x - values[i][r]), row.map((x, r) => x - values[i][r])));
    const size = values.map((v) => dot(v, v)), all = (list) => list.reduce((a, b) => a + b);
    return { memory, found, errors: miss.map((m, i) => m / size[i]), total: all(miss) / all(size) };
  }

  draw() {
    const { data } = this, state = this.state();
    this.arrows.forEach((group, i) => {
      const a = -this.angles[i] * Math.PI / 180, at = (r) => [MIDDLE + r * Math.cos(a), MIDDLE + r * Math.sin(a)];
      const [line, tip, text] = group.children, [x, y] = at(RADIUS), [tx, ty] = at(RADIUS + 16);
      group.setAttribute("visibility", i < this.written ? "visible" : "hidden");
      group.setAttribute("tabindex", i < this.written ? 0 : -1);
      group.setAttribute("aria-valuenow", this.angles[i]);
      group.setAttribute("aria-valuetext", `${this.angles[i]} degrees`);
      line.setAttribute("x2", x);
      line.setAttribute("y2", y);
      tip.setAttribute("transform", `translate(${x} ${y}) rotate(${-this.angles[i]})`);
      text.setAttribute("x", tx);
      text.setAttribute("y", ty + 5);
    });
    this.store.replaceChildren(el("p", { class: "head", text: state.memory ? "Memory W" : "No matrix" }), ...state.memory
      ? [this.grid(state.memory), el("p", { class: "muted", text: "6 numbers, whatever was written" })]
      : [el("p", { class: "muted", text: `every key and value is kept: ${5 * this.written} numbers, growing with each pair` })]);
    const row = (i) => el("tr", {}, el("th", { scope: "row", text: data.names[i] }), el("td", { class: "values", text: data.values[i].map((v) => signed(v, Number.isInteger(v) ? 0 : 1)).join("  ") }),
      el("td", { class: "values read", text: state.found[i].map((v) => signed(v)).join(" ") }),
      el("td", {}, el("span", { class: "bar", style: `width:${clamp(state.errors[i], 0, 2) * 1.6}em` }), el("span", { text: signed(state.errors[i]) })));
    this.list.replaceChildren(el("p", { class: "head", text: "Ask for each key" }), el("table", { class: "pairs" },
      el("thead", {}, el("tr", {}, ...["key", "written", "read", "error"].map((t) => el("th", { scope: "col", text: t })))),
      el("tbody", {}, ...state.found.map((_, i) => row(i)))));
    const label = data.rules.find(([id]) => id === this.rule)[1], many = `${this.written} ${this.written > 1 ? "pairs" : "pair"}`;
    this.readout.textContent = `${label[0].toUpperCase()}${label.slice(1)}, ${many} in 2 dimensions: relative error ${signed(state.total)}. ${this.say(state)}`;
  }

  say({ total }) {
    if (this.rule === "softmax") return total < 0.01 ? "The keys are far enough apart." : "Keys that point almost the same way are mixed up.";
    if (total < 0.005) return "Nothing disturbs anything.";
    if (this.rule === "delta") return `Only ${this.data.names[this.written - 1]}, written last, is exact.`;
    return this.written > 2 ? "More keys than dimensions: no angles bring this to 0." : "The keys are not at right angles.";
  }

  grid(memory) {
    const shade = (v) => `background:color-mix(in srgb, var(--${v < 0 ? "negative" : "positive"}) ${Math.round(Math.min(Math.abs(v), 2) * 17)}%, var(--back))`;
    return el("table", { class: "grid", "aria-label": "memory, one row a component of the value" }, el("tbody", {}, ...memory.map((row) =>
      el("tr", {}, ...row.map((v) => el("td", { style: shade(v), text: signed(v) }))))));
  }
}
MemoryExplorer.style = `
  .panes { display: flex; flex-wrap: wrap; gap: .4em 2em; align-items: flex-start; margin-top: .5em; }
  .head { font-weight: 600; margin: 0 0 .2em; }
  .dial { width: 220px; height: 220px; touch-action: none; display: block; cursor: grab; }
  .rim { fill: none; stroke: var(--null); stroke-opacity: .5; }
  .arrow { color: var(--key); outline-offset: 3px; }
  .arrow line { stroke: currentColor; stroke-width: 3; }
  .arrow path { fill: currentColor; }
  .arrow text { fill: currentColor; font-weight: 600; font-size: 15px; }
  .arrow:focus-visible line { stroke-width: 5; }
  .store { width: 11em; }
  table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
  .grid td { width: 4em; text-align: center; padding: .35em 0; border: 1px solid var(--back); }
  .pairs th, .pairs td { text-align: left; padding: .2em .7em .2em 0; font-weight: 400; white-space: pre; }
  .pairs thead th { color: var(--null); }
  .pairs tbody th { color: var(--key); font-weight: 600; }
  .values { color: var(--value); }
  .read { color: var(--output); }
  .bar { display: inline-block; height: .7em; background: var(--negative); margin-right: .3em; }
  .list { overflow-x: auto; max-width: 100%; }
  @media (max-width: 480px) { .bar { display: none; } .pairs { font-size: .93em; } .pairs th, .pairs td { padding-right: .4em; } }
  .readout { margin: .4em 0 0; min-height: 3em; }`;
if (!customElements.get("memory-explorer")) customElements.define("memory-explorer", MemoryExplorer);
