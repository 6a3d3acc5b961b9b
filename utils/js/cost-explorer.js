// <cost-explorer>: what one text of n tokens costs in a layer; the part that grows with n² beside the part that grows with n.
// data: { title, hint, lengths: [n], n, bytes, models: [{ name, width, heads, query, key, ffn, gated }] }
// The formulas are those of utils/planner; tests/browser/test_cost_explorer.py compares them.
function costs({ width, heads, query, key, ffn, gated }, n, bytes) {
  const projections = n * 4 * width * (query + key), inner = n * (gated ? 6 : 4) * width * ffn, scores = n * 4 * n * query;
  const peak = (eager) => {
    const weights = eager ? heads * n : 0;
    return n * bytes * Math.max(width + query + 2 * key + (2 * weights || query), 2 * width + (gated ? 3 : 2) * ffn + weights);
  };
  return { entries: n * n, projections, ffn: inner, scores, share: scores / (projections + inner + scores),
    crossover: (projections + inner) / n / (4 * query), score_bytes: n * heads * n * bytes, flash_bytes: n * heads * 4,
    kv_bytes: 2 * n * key * bytes, eager: peak(true), flash: peak(false) };
}

// Three digits and a prefix.
function amount(value) {
  for (const [size, prefix] of [[1e15, " P"], [1e12, " T"], [1e9, " G"], [1e6, " M"], [1e3, " k"]]) if (value >= 0.9995 * size) {
    const digits = value / size;
    return digits.toFixed(digits >= 99.95 ? 0 : digits >= 9.995 ? 1 : 2) + prefix;
  }
  return `${value.toFixed(0)} `;
}

const grouped = (n) => Math.round(n).toLocaleString("en");
const percent = (v) => v > 0.005 && v < 0.9995 ? `${(100 * v).toFixed(v > 0.995 || v < 0.0995 ? 1 : 0)} %` : `${(100 * v).toFixed(2)} %`;

class CostExplorer extends BookElement {
  build() {
    const { data } = this;
    this.model = 0;
    this.place = data.lengths.indexOf(data.n);
    const select = el("select", { onchange: () => { this.model = +select.value; this.draw(); } }, ...data.models.map(({ name }, i) => el("option", { value: i, text: name })));
    this.slider = el("input", { type: "range", min: 0, max: data.lengths.length - 1, step: 1, value: this.place, oninput: () => this.go(+this.slider.value) });
    this.output = el("output", {});
    this.chart = el("svg", { class: "chart", "aria-hidden": "true" });
    for (const type of ["pointerdown", "pointermove"]) this.chart.addEventListener(type, (event) => {
      if (type === "pointermove" && !event.buttons) return;
      const box = this.chart.getBoundingClientRect(), { left, right } = this.frame, last = data.lengths.length - 1;
      const wanted = data.lengths[0] * (data.lengths[last] / data.lengths[0]) ** ((event.clientX - box.left - left) / (box.width - left - right));
      const off = data.lengths.map((n) => Math.abs(Math.log(n / wanted)));
      this.go(off.indexOf(Math.min(...off)));
    });
    this.bar = el("div", { class: "bar", "aria-hidden": "true" });
    this.shares = el("p", { class: "shares" });
    this.list = el("dl");
    this.readout = el("p", { class: "readout", "aria-live": "polite" });
    this.box.append(el("p", { class: "title" }, ...rich(data.title)), el("p", { class: "hint", text: data.hint }),
      el("div", { class: "options controls" }, el("label", {}, el("span", { class: "muted", text: "model " }), select),
        el("label", {}, el("span", { class: "muted", text: "tokens n " }), this.slider, " ", this.output)),
      el("div", { class: "panes" }, el("div", { class: "pane" }, el("p", { class: "muted", text: "operations of one layer, logarithmic axes" }), this.chart),
        el("div", { class: "pane" }, el("p", { class: "muted", text: "where the operations of the layer go" }), this.bar, this.shares, this.list)), this.readout);
  }

  costs(model, n) {
    return costs(this.data.models[model], n, this.data.bytes);
  }

  go(place) {
    this.place = place;
    this.slider.value = place;
    this.draw();
  }

  draw() {
    if (!this.box.clientWidth) return;
    const { data } = this, n = data.lengths[this.place], c = this.costs(this.model, n), total = c.projections + c.ffn + c.scores;
    this.output.textContent = grouped(n);
    this.slider.setAttribute("aria-valuetext", `${grouped(n)} tokens, ${percent(c.share)} of the operations in n squared`);
    const parts = [["projections", c.projections, "key"], ["feed-forward network", c.ffn, "null"], ["scores, the n² part", c.scores, "query"]];
    this.bar.replaceChildren(...parts.map(([, v, colour]) => el("span", { style: `flex:${v / total} 0 0;background:var(--${colour})` })));
    this.shares.replaceChildren(...parts.flatMap(([name, v, colour]) => [el("span", { class: "share" },
      el("i", { style: `background:var(--${colour})` }), ` ${name} `, el("b", { text: percent(v / total) })), " "]));
    const rows = [["scores in a head, n²", `${amount(c.entries).trim()}`], ["operations of the layer", `${amount(total)}FLOP`],
      ["all heads' scores, if held", `${amount(c.score_bytes)}B`], ["keys and values", `${amount(c.kv_bytes)}B`],
      ["peak of the layer, eager", `${amount(c.eager)}B`], ["peak of the layer, flash", `${amount(c.flash)}B`]];
    this.list.replaceChildren(...rows.flatMap(([name, value]) => [el("dt", { text: name }), el("dd", { text: value })]));
    const half = grouped(c.crossover);
    this.readout.replaceChildren(`${data.models[this.model].name}, n = ${grouped(n)}: the n² part is `, el("b", { text: percent(c.share) }),
      ` of the operations. It is half of them at n = ${half}`, n < c.crossover ? ", which this text does not reach." : ", which this text has passed.");
    this.plot(n);
  }

  plot(n) {
    const { lengths } = this.data, width = Math.max(this.chart.clientWidth, 200), height = 210;
    const frame = this.frame = { left: 46, right: 12, top: 10, bottom: 30 };
    const all = lengths.map((each) => this.costs(this.model, each)), lines = { linear: all.map((c) => c.projections + c.ffn), square: all.map((c) => c.scores) };
    const low = Math.log10(Math.min(...lines.linear, ...lines.square)), high = Math.log10(Math.max(...lines.linear, ...lines.square));
    const x = (v) => frame.left + Math.log(v / lengths[0]) / Math.log(lengths.at(-1) / lengths[0]) * (width - frame.left - frame.right);
    const y = (v) => height - frame.bottom - (Math.log10(v) - low) / (high - low) * (height - frame.top - frame.bottom);
    const path = (list) => list.map((v, i) => `${i ? "L" : "M"}${x(lengths[i]).toFixed(1)} ${y(v).toFixed(1)}`).join("");
    const { crossover } = all[0], both = all[0].projections / lengths[0] * crossover + all[0].ffn / lengths[0] * crossover, now = this.costs(this.model, n);
    const text = (words, options) => el("text", { ...options, text: words });
    const marks = [64, 512, 4096, 32768].map((v) => text(v < 1000 ? v : `${v / 1024}k`, { class: "tick", x: x(v), y: height - frame.bottom + 15, "text-anchor": "middle" }));
    const sides = Array.from({ length: Math.floor(high) - Math.ceil(low) + 1 }, (_, i) => Math.ceil(low) + i).filter((e) => e % 2 === 0)
      .map((e) => text(amount(10 ** e).trim(), { class: "tick", x: frame.left - 5, y: y(10 ** e) + 4, "text-anchor": "end" }));
    this.chart.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.chart.setAttribute("height", height);
    this.chart.replaceChildren(el("rect", { class: "ground", x: 0, y: 0, width, height }), el("path", { class: "axis", d: `M${frame.left} ${frame.top}V${height - frame.bottom}H${width - frame.right}` }), ...marks, ...sides,
      text("tokens n", { class: "tick", x: width - frame.right, y: height - 2, "text-anchor": "end" }),
      el("line", { class: "now", x1: x(n), x2: x(n), y1: frame.top, y2: height - frame.bottom }),
      el("path", { class: "linear", d: path(lines.linear) }), el("path", { class: "square", d: path(lines.square) }),
      el("circle", { class: "cross", cx: x(crossover), cy: y(both), r: 5 }), text(`equal at ${grouped(crossover)}`, { class: "name", x: x(crossover) - 9, y: y(both) - 8, "text-anchor": "end" }),
      el("circle", { class: "on linear", cx: x(n), cy: y(now.projections + now.ffn), r: 4 }), el("circle", { class: "on square", cx: x(n), cy: y(now.scores), r: 4 }),
      text("in n²", { class: "name square", x: x(lengths.at(-1)) - 34, y: y(lines.square.at(-1)) + 8, "text-anchor": "end" }),
      text("in n", { class: "name linear", x: x(lengths.at(-1)) - 2, y: y(lines.linear.at(-1)) + 20, "text-anchor": "end" }));
  }
}
CostExplorer.style = `
  select { max-width: 100%; background: var(--back); border: 1px solid var(--null); border-radius: 3px; padding: .2em .3em; min-height: 28px; }
  .panes { display: flex; flex-wrap: wrap; gap: .6em 2em; margin-top: .6em; }
  .pane { flex: 1 1 17rem; min-width: 0; max-width: 30rem; }
  .chart { display: block; width: 100%; cursor: ew-resize; touch-action: pan-y; }
  .ground { fill: transparent; }
  .axis { fill: none; stroke: var(--null); }
  .tick { fill: var(--null); font-size: 11px; }
  .name { fill: var(--ink); font-size: 12px; }
  path.linear, path.square { fill: none; stroke-width: 2.5; }
  path.linear { stroke: var(--null); }
  path.square { stroke: var(--query); }
  .name.linear, .on.linear { fill: var(--null); }
  .name.square, .on.square { fill: var(--query); }
  .now { stroke: var(--ink); stroke-dasharray: 3 3; }
  .cross { fill: none; stroke: var(--ink); stroke-width: 1.5; }
  .bar { display: flex; height: 1.6em; gap: 1px; margin: .3em 0; }
  .shares { margin: .2em 0 .6em; }
  .share { display: inline-block; margin-right: 1em; }
  .share i { display: inline-block; width: .8em; height: .8em; }
  dl { display: grid; grid-template-columns: auto auto; gap: .1em 1em; margin: 0; justify-content: start; }
  dt { color: var(--null); }
  dd { margin: 0; text-align: right; }
  b, dd, output { font-variant-numeric: tabular-nums; }
  .readout { margin: .6em 0 0; min-height: 3em; }`;
if (!customElements.get("cost-explorer")) customElements.define("cost-explorer", CostExplorer);
