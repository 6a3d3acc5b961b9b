// <pruning-explorer>: curves over the heads that are kept, beside the grid of heads, which go out along a curve.
// data: { title, hint, metric, better, spread, shape: [rows, heads], groups: [{ name, rows }], rows: [label], path, step,
//   paths: [{ name, null, steps, masks, spread, more: [label] }] }
// arrays: kept, value (all paths, one after the other), masks (16 heads a number), low, high, more, roles, reference
const ROLES = [["positional", "po"], ["syntactic", "sy"], ["sink", "si"], ["rare", "ra", "rare-word"], ["unlabelled", ""]]
  .map(([colour, mark, name = colour]) => ({ colour, mark, name }));
const DASHES = ["", "9 4", "2 4", "9 4 2 4", "5 2", "1 3"];

class PruningExplorer extends BookElement {
  build() {
    const { data } = this, arrays = Object.fromEntries(Object.entries(data.arrays).map(([name, item]) => [name, unpack(item)]));
    const at = { kept: 0, value: 0, masks: 0, low: 0, high: 0, more: 0 };
    const take = (name, count) => arrays[name].subarray(at[name], at[name] += count);
    this.total = data.shape[0] * data.shape[1];
    this.words = Math.ceil(this.total / 16);
    this.paths = data.paths.map((path, index) => {
      const { steps } = path, kept = take("kept", steps), value = take("value", steps);
      return { ...path, index, kept, value, bits: path.masks && take("masks", steps * this.words), low: path.spread && take("low", steps),
        high: path.spread && take("high", steps), columns: path.more.map((name) => ({ name, values: take("more", steps) })) };
    });
    this.roles = arrays.roles;
    this.reference = arrays.reference?.[0];
    const size = Math.abs(this.reference ?? Math.max(...this.paths[data.path].value.map(Math.abs)));
    this.decimals = clamp(2 - Math.floor(Math.log10(size || 1)), 0, 6);
    this.path = this.paths[data.path];
    this.step = data.step;
    this.slider = el("input", { type: "range", min: 0, step: 1, oninput: () => this.go(+this.slider.value) });
    this.output = el("output");
    this.choice = el("fieldset", { class: "paths", "aria-label": "how heads are chosen" }, ...this.paths.map((path) => this.option(path)));
    this.plot = el("svg", { class: "plot", "aria-hidden": "true" });
    for (const type of ["pointerdown", "pointermove"]) this.plot.addEventListener(type, (event) => {
      if (type === "pointermove" && !event.buttons) return;
      this.go(this.nearest(this.path, this.heads(event.clientX - this.plot.getBoundingClientRect().left)));
    });
    this.grids = el("div", { class: "grids" });
    this.legend = el("p", { class: "legend" });
    this.readout = el("p", { class: "readout", "aria-live": "polite" });
    this.more = el("p", { class: "more" });
    this.box.append(...data.title ? [el("p", { class: "title" }, ...rich(data.title))] : [], el("p", { class: "hint", text: data.hint }),
      this.choice, this.way = el("label", { class: "controls way" }, el("span", { class: "muted", text: "take heads out" }), this.slider, " ", this.output),
      el("div", { class: "pair" }, el("div", { class: "left" }, this.plot), el("div", { class: "right" }, this.grids, this.legend)),
      this.readout, this.more);
  }

  // One line of the legend: the stroke of its path, and a switch where the path can be followed.
  option(path) {
    const line = el("svg", { class: "sample", width: 30, height: 10, "aria-hidden": "true" },
      ...path.spread ? [el("rect", { class: "band", width: 30, height: 10 })] : [],
      el("line", { x1: 0, x2: 30, y1: 5, y2: 5, "stroke-dasharray": DASHES[path.index % DASHES.length] }));
    const note = path.spread && this.data.spread ? [el("span", { class: "muted", text: ` (${this.data.spread})` })] : [];
    const name = [line, el("span", {}, path.name, ...note)];
    if (!path.masks || this.paths.filter((each) => each.masks).length < 2) return path.entry = el("span", { class: "entry" }, ...name);
    const input = el("input", { type: "radio", name: "path", checked: path === this.path, onchange: () => this.follow(path) });
    return path.entry = el("label", { class: "entry" }, input, ...name);
  }

  go(step) {
    if (step === this.step) return;
    this.step = step;
    this.draw();
  }

  follow(path) {
    this.step = this.nearest(path, this.path.kept[this.step]);
    this.path = path;
    this.draw();
  }

  nearest(path, heads) {
    return path.kept.reduce((best, kept, i) => Math.abs(kept - heads) < Math.abs(path.kept[best] - heads) ? i : best, 0);
  }

  isKept(head) { return this.path.bits[this.step * this.words + (head >> 4)] >> (head & 15) & 1; }

  text(value) { return value.toFixed(this.decimals).replace(/^-(?=.*[1-9])/, "−").replace(/^-/, ""); }

  draw() {
    if (!this.box.clientWidth) return;
    const { path, step } = this, kept = path.kept[step];
    this.way.hidden = path.steps < 2;
    this.slider.max = path.steps - 1;
    this.slider.value = step;
    this.output.textContent = `${kept} of ${this.total} kept`;
    this.slider.setAttribute("aria-valuetext", `${kept} of ${this.total} heads kept`);
    for (const each of this.paths) each.entry.classList.toggle("chosen", each === path);
    this.drawPlot();
    this.drawGrids();
    this.read();
  }

  // Few round numbers of heads from all (left) to none (right).
  headTicks(narrow) {
    const most = narrow ? 5 : 7, { total } = this;
    const step = Array.from({ length: total }, (_, i) => i + 1).find((s) => total % s === 0 && total / s <= most);
    if (total / step >= 3 || total < 4) return Array.from({ length: total / step + 1 }, (_, i) => i * step);
    const wide = Math.ceil(total / most);
    return Array.from({ length: Math.floor(total / wide) + 1 }, (_, i) => i * wide);
  }

  valueTicks([low, high]) {
    const raw = (high - low) / 5, power = 10 ** Math.floor(Math.log10(raw)), step = [1, 2, 2.5, 5, 10].find((s) => s * power >= raw - 1e-12) * power;
    const first = Math.ceil(low / step - 1e-9);
    return Array.from({ length: Math.floor(high / step + 1e-9) - first + 1 }, (_, i) => +((first + i) * step).toPrecision(12));
  }

  range() {
    const all = this.paths.flatMap((p) => [...p.value, ...p.low || [], ...p.high || []]).concat(this.reference ?? []).filter(Number.isFinite);
    let [low, high] = [Math.min(...all), Math.max(...all)];
    if (low === high) [low, high] = [low - 0.5, high + 0.5];
    const pad = (high - low) * 0.06;
    return [low >= 0 && low < pad * 3 ? 0 : low - pad, high + pad];
  }

  drawPlot() {
    const width = Math.max(240, this.plot.parentNode.clientWidth), em = parseFloat(getComputedStyle(this.plot).fontSize);
    const height = Math.round(clamp(width * 0.62, 190, 330)), range = this.range(), ticks = this.valueTicks(range);
    const ink = document.createElement("canvas").getContext("2d");
    ink.font = `${em}px ${getComputedStyle(this.plot).fontFamily}`;
    const name = (v) => String(v).replace("-", "−");
    const left = Math.max(...ticks.map((t) => ink.measureText(name(t)).width)) + 12, right = width - 14, top = em * 2, bottom = height - em * 2.9;
    const X = (heads) => right - heads / this.total * (right - left), Y = (v) => bottom - (v - range[0]) / (range[1] - range[0]) * (bottom - top);
    this.heads = (x) => (right - x) / (right - left) * this.total;
    const text = (x, y, anchor, value, kind = "") => el("text", { x, y, "text-anchor": anchor, class: kind, text: value });
    const parts = [el("rect", { class: "ground", width, height }), el("line", { class: "axis", x1: left, x2: right, y1: bottom, y2: bottom })];
    for (const t of ticks) parts.push(el("line", { class: "mesh", x1: left, x2: right, y1: Y(t), y2: Y(t) }), text(left - 7, Y(t) + em * 0.34, "end", name(t)));
    for (const t of this.headTicks(width < 420)) parts.push(el("line", { class: "axis", x1: X(t), x2: X(t), y1: bottom, y2: bottom + 4 }),
      text(X(t), bottom + em * 1.25, "middle", t));
    const { metric, better } = this.data;
    parts.push(text((left + right) / 2, height - em * 0.4, "middle", "heads kept"), text(2, em * 0.95, "start", `${metric}, ${better} is better`));
    const kept = this.path.kept[this.step];
    if (this.reference !== undefined) parts.push(el("line", { class: "reference", x1: left, x2: right, y1: Y(this.reference), y2: Y(this.reference) }),
      text(right, Y(this.reference) - 0.4 * em, "end", "whole model", "name"));
    parts.push(el("line", { class: "cursor", x1: X(kept), x2: X(kept), y1: top, y2: bottom }));
    for (const path of [...this.paths].sort((a, b) => (a === this.path) - (b === this.path))) parts.push(this.line(path, X, Y));
    parts.push(el("circle", { class: "ring", cx: X(kept), cy: Y(this.path.value[this.step]), r: 6 }));
    for (const [key, value] of [["viewBox", `0 0 ${width} ${height}`], ["width", width], ["height", height]]) this.plot.setAttribute(key, value);
    this.plot.replaceChildren(...parts);
  }

  line(path, X, Y) {
    const trace = (steps, values) => steps.map((i, n) => `${n ? "L" : "M"}${X(path.kept[i]).toFixed(1)} ${Y(values[i]).toFixed(1)}`).join("");
    const steps = [...path.kept.keys()], group = el("g", { class: `line${path === this.path ? " chosen" : ""}` });
    const wide = path.spread ? steps.filter((i) => Number.isFinite(path.low[i]) && Number.isFinite(path.high[i])) : [];
    if (wide.length > 1) group.append(el("path", { class: "band", d: `${trace(wide, path.high)}L${trace([...wide].reverse(), path.low).slice(1)}Z` }));
    group.append(el("path", { class: "curve", d: trace(steps, path.value), "stroke-dasharray": DASHES[path.index % DASHES.length] }));
    if (path === this.path && path.steps < 25 || path.steps < 2) for (const i of steps) group.append(el("circle", { class: "knot", cx: X(path.kept[i]), cy: Y(path.value[i]), r: 2.6 }));
    return group;
  }

  // A grid for each attention type. A kept head is a full square, one that is out is a hollow one with a cross.
  drawGrids() {
    const { shape: [rows, heads], groups, rows: labels } = this.data, em = parseFloat(getComputedStyle(this.grids).fontSize);
    const ink = document.createElement("canvas").getContext("2d");
    ink.font = `${em * 0.85}px ${getComputedStyle(this.grids).fontFamily}`;
    const wide = (text) => ink.measureText(text).width, most = Math.max(40, 0.4 * this.grids.clientWidth);
    const shown = labels.map((label) => {
      let end = label.length;
      while (end > 1 && wide(label.slice(0, end)) > most) end--;
      return end < label.length ? `${label.slice(0, end)}…` : label;
    });
    const margin = Math.max(...shown.map(wide)) + 8;
    const side = Math.floor(clamp(Math.min((this.grids.clientWidth - margin) / heads, 250 / rows), 9, 30));
    const every = Math.ceil(em / side);  // labels of low rows would touch
    let row = 0;
    this.grids.replaceChildren(...groups.map(({ name, rows: count }) => {
      const first = row, cells = [];
      let left = 0;
      for (; row < first + count; row++) {
        if ((row - first) % every === 0) cells.push(el("text", { class: "label", x: margin - 6, y: (row - first) * side + side / 2 + em * 0.3, "text-anchor": "end", text: shown[row] }));
        for (let head = 0; head < heads; head++) {
          left += this.isKept(row * heads + head);
          cells.push(...this.cell(row * heads + head, margin + head * side, (row - first) * side, side));
        }
      }
      const grid = el("svg", { class: "grid", width: margin + heads * side, height: count * side, "aria-hidden": "true" }, ...cells);
      return el("figure", {}, ...name ? [el("figcaption", {}, el("b", { text: name }), ` ${left} of ${count * heads}`)] : [], grid);
    }));
    this.grids.append(el("p", { class: "muted", text: "a row a layer, a square a head" }));
    const count = (role) => Array.from({ length: rows * heads }, (_, i) => i).filter((i) => role === undefined || this.roles[i] === role);
    const swatch = (kind, role, word) => el("span", { class: "item" }, el("svg", { width: 20, height: 20, "aria-hidden": "true" },
      ...this.square(kind, 0, 0, 20, role)), ` ${word}`);
    this.legend.replaceChildren(...this.roles ? ROLES.flatMap(({ name }, role) => {
      const all = count(role);
      return all.length ? [swatch(true, role, `${name} ${all.filter((i) => this.isKept(i)).length} of ${all.length}`), " "] : [];
    }) : [swatch(true, undefined, "kept"), " "], swatch(false, undefined, "taken out"));
  }

  cell(head, x, y, side) { return this.square(this.isKept(head), x, y, side, this.roles?.[head]); }

  square(kept, x, y, side, role) {
    const { colour, mark } = ROLES[role] ?? {}, tone = colour || (kept ? "query" : "null"), gap = side > 14 ? 1.5 : 0.8, size = side - 2 * gap;
    const box = { x: x + gap, y: y + gap, width: size, height: size, rx: side / 9, style: `--tone:var(--${tone})` };
    if (kept) return [el("rect", { ...box, class: "on" }), ...mark && side >= 18 ? [el("text", { class: "mark", x: x + side / 2, y: y + side / 2 + 3.5, "text-anchor": "middle", text: mark })] : []];
    const [a, b] = [gap + size * 0.28, gap + size * 0.72];
    return [el("rect", { ...box, class: "off" }), el("path", { class: "cross", d: `M${x + a} ${y + a}L${x + b} ${y + b}M${x + b} ${y + a}L${x + a} ${y + b}` })];
  }

  // The value of a path at a number of heads, between its steps by a straight line; null outside of them.
  between(path, heads) {
    const after = path.kept.findIndex((kept) => kept <= heads);
    if (after < 0 || after === 0 && path.kept[0] !== heads) return null;
    if (path.kept[after] === heads) return { value: path.value[after], at: after };
    const [a, b] = [after - 1, after], share = (path.kept[a] - heads) / (path.kept[a] - path.kept[b]);
    return { value: path.value[a] + share * (path.value[b] - path.value[a]) };
  }

  read() {
    const { path, step, data, reference } = this, kept = path.kept[step], value = path.value[step], parts = [];
    const bold = (text) => el("b", { text });
    const roles = this.roles ? ROLES.map(({ name }, role) => [name, Array.from(this.roles.keys()).filter((i) => this.roles[i] === role && this.isKept(i)).length])
      .filter(([, count]) => count).map(([name, count]) => `${count} ${name}`) : [];
    const list = roles.length > 1 ? `${roles.slice(0, -1).join(", ")} and ${roles.at(-1)}` : roles[0] ?? "";
    parts.push(bold(`${path.name}: ${kept || "none"} of ${this.total} heads`), ` ${kept === 1 ? "is" : "are"} left${list && `, ${list}`}. `,
      bold(`${data.metric} ${this.text(value)}`));
    if (reference !== undefined) {
      const apart = this.text(Math.abs(value - reference)), all = `the whole model’s ${this.text(reference)}`;
      const share = data.better === "higher" && reference > 0 && value >= 0 ? ` (${Math.round(100 * value / reference)}\u00a0% of it)` : "";
      parts.push(+apart === 0 ? ", as much as the whole model." : `, ${apart} ${value < reference ? "below" : "above"} ${all}${share}.`);
    } else parts.push(".");
    for (const other of this.paths.filter((each) => each.null && each !== path)) {
      const found = this.between(other, kept);
      if (found === null) continue;
      const spread = found.at !== undefined && other.spread && Number.isFinite(other.low[found.at]) && Number.isFinite(other.high[found.at])
        ? ` (${this.text(other.low[found.at])} to ${this.text(other.high[found.at])})` : "";
      parts.push(` ${other.name[0].toUpperCase()}${other.name.slice(1)} with as many heads: ${found.at === undefined ? "about " : ""}${this.text(found.value)}${spread}.`);
    }
    this.readout.replaceChildren(...parts);
    this.more.replaceChildren(...path.columns.flatMap(({ name, values }) => {
      const now = values[step], all = path.kept[0] === this.total && step ? values[0] : NaN;
      const shown = !Number.isFinite(now) ? "missing" : Number.isInteger(now) || Math.abs(now) >= 1000 ? Math.round(now).toLocaleString("en") : String(+now.toPrecision(3));
      const share = Number.isFinite(now / all) ? ` (${Math.round(100 * now / all)}\u00a0% of the whole)` : "";
      return [el("span", { class: "item" }, `${name} `, bold(shown), share), " "];
    }));
  }
}
PruningExplorer.style = `
  .way { display: flex; flex-wrap: wrap; align-items: center; gap: .1em .5em; margin: .1em 0 .3em; }
  .way[hidden] { display: none; }
  .way input { flex: 1 1 6rem; min-width: 0; max-width: 30rem; min-height: 28px; }
  output { min-width: 7.5em; font-variant-numeric: tabular-nums; }
  .pair { display: flex; flex-wrap: wrap; gap: .4em 1.6em; }
  .left { flex: 3 1 17rem; min-width: 0; }
  .right { flex: 2 1 15rem; min-width: 0; }
  svg { display: block; overflow: visible; }
  .plot { cursor: ew-resize; touch-action: pan-y; }
  .plot text { fill: var(--ink); font-size: 1em; }
  .ground { fill: transparent; }
  .mesh { stroke: var(--null); opacity: .18; }
  .axis { stroke: var(--null); }
  .reference { stroke: var(--ink); stroke-dasharray: 1 3; }
  .cursor { stroke: var(--ink); opacity: .6; }
  .plot .name { fill: var(--null); paint-order: stroke; stroke: var(--back); stroke-width: 4px; stroke-linejoin: round; }
  .curve { fill: none; stroke: var(--null); stroke-width: 1.6; stroke-linejoin: round; opacity: .8; }
  .knot { fill: var(--null); }
  .band { fill: var(--null); opacity: .2; }
  .line.chosen .curve { stroke: var(--ink); stroke-width: 2.6; opacity: 1; }
  .line.chosen .knot { fill: var(--ink); }
  .ring { fill: var(--back); stroke: var(--ink); stroke-width: 2.6; }
  .paths { display: flex; gap: .1em 1.1em; margin-top: .3em; }
  .entry { display: inline-flex; align-items: center; gap: .35em; min-height: 28px; }
  .entry.chosen { font-weight: 600; }
  .sample line { stroke: var(--null); stroke-width: 1.6; }
  .chosen .sample line { stroke: var(--ink); stroke-width: 2.6; }
  .grids { margin-top: .4em; }
  figure { margin: 0 0 .4em; }
  .label { fill: var(--null); font-size: .85em; }
  .on { fill: var(--tone); }
  .off { fill: none; stroke: var(--tone); opacity: .75; stroke-dasharray: 2 2; }
  .cross { stroke: var(--null); opacity: .9; }
  .mark { fill: var(--back); font-size: 10px; font-weight: 600; }
  .legend { margin: .2em 0; }
  .item { display: inline-flex; align-items: center; gap: .3em; margin-right: .9em; font-variant-numeric: tabular-nums; }
  .readout { margin: .5em 0 0; min-height: 4.5em; }
  .more { margin: .2em 0 0; }
  .more .item { display: inline-block; }`;
if (!customElements.get("pruning-explorer")) customElements.define("pruning-explorer", PruningExplorer);
