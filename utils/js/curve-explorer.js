// <curve-explorer>: series computed beforehand, chosen by sliders and switches.
// data: { title, hint, x: { label, log }, y: { label, range }, names: [line], nulls: [line index],
//   choices: [{ name, label, values, slider, start }], segments: [[choice …, line, first, last]], dots: bool }
// arrays: x, y, low, high (points of all segments, one after the other); dots: arrays dot_x, dot_y and `dotted` segments
const round = (v) => !Number.isFinite(v) ? "missing"
  : v === 0 ? "0" : String(+v.toPrecision(3)).replace(/^-/, "−").replace(/e\+?(-?)/, (_, s) => `e${s && "−"}`);

function ticks([low, high], log, count) {
  if (log) {
    const [a, b] = [Math.ceil(Math.log10(low) - 1e-9), Math.floor(Math.log10(high) + 1e-9)];
    const step = Math.max(1, Math.ceil((b - a) / count));
    const tens = Array.from({ length: Math.max(0, Math.floor((b - a) / step) + 1) }, (_, i) => 10 ** (a + i * step));
    if (tens.length > 1) return tens;
  }
  const raw = (high - low) / count || 1, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].find((s) => s * power >= raw - 1e-12) * power;
  const first = Math.ceil(low / step - 1e-9);
  return Array.from({ length: Math.floor(high / step + 1e-9) - first + 1 }, (_, i) => +((first + i) * step).toPrecision(12));
}

const DASHES = ["", "8 4", "2 3", "10 3 2 3"];

class CurveExplorer extends BookElement {
  build() {
    const { data } = this, { choices } = data;
    this.arrays = Object.fromEntries(Object.entries(data.arrays).map(([name, item]) => [name, unpack(item)]));
    this.chosen = choices.map((choice) => choice.start);
    this.at = data.at ?? null;
    this.controls = el("div", { class: "options controls" }, ...choices.map((choice, index) => this.control(choice, index)));
    this.svg = el("svg", { "aria-hidden": "true" });
    this.plot = el("div", { class: "plot", tabindex: 0, role: "slider", "aria-label": `${data.x.label}: ${this.getAttribute("aria-label")}` },
      el("div", { text: data.y.label }), this.svg, el("div", { class: "below", text: data.x.label }));
    this.plot.addEventListener("keydown", (event) => this.key(event));
    for (const type of ["pointermove", "pointerdown"]) this.plot.addEventListener(type, (event) => this.point(event));
    this.legend = el("p", { class: "legend", "aria-hidden": "true" });
    this.readout = el("p", { class: "readout", "aria-live": "polite" });
    this.box.append(...data.title ? [el("p", { class: "title" }, ...rich(data.title))] : [],
      el("p", { class: "hint", text: data.hint }), this.controls, this.plot, this.legend, this.readout);
  }

  control(choice, index) {
    const set = (value) => { this.chosen[index] = value; this.draw(); };
    if (choice.values.length < 2) return el("span", { hidden: true });
    if (!choice.slider)
      return el("fieldset", {}, el("legend", { text: choice.label }), ...choice.values.map((value, i) =>
        el("label", {}, el("input", { type: "radio", name: choice.name, checked: i === choice.start, onchange: () => set(i) }), ` ${value}`)));
    const output = el("output", { text: choice.values[choice.start] });
    const input = el("input", { type: "range", min: 0, max: choice.values.length - 1, value: choice.start, step: 1,
      "aria-valuetext": choice.values[choice.start] });
    input.addEventListener("input", () => {
      output.textContent = choice.values[input.value];
      input.setAttribute("aria-valuetext", output.textContent);
      set(+input.value);
    });
    return el("label", {}, el("span", { class: "muted", text: `${choice.label} ` }), input, " ", output);
  }

  // The lines of a choice, the present one if none is named: [{ name, grey, points: [{ x, y, low, high }], dots }].
  lines(chosen = this.chosen) {
    const { segments, names, nulls, dotted } = this.data, { x, y, low, high, dot_x, dot_y } = this.arrays;
    const width = chosen.length, here = (s) => chosen.every((c, i) => s[i] === c);
    const part = (s) => Array.from({ length: s[width + 2] - s[width + 1] }, (_, i) => s[width + 1] + i);
    return segments.filter(here).map((s) => ({
      index: s[width], name: names[s[width]], grey: nulls.includes(s[width]),
      points: part(s).map((i) => ({ x: x[i], y: y[i], low: low?.[i], high: high?.[i] })),
      dots: dotted.filter((d) => here(d) && d[width] === s[width]).flatMap(part).map((i) => ({ x: dot_x[i], y: dot_y[i] })),
    })).sort((a, b) => a.index - b.index);
  }

  steps(lines) { return [...new Set(lines.flatMap((l) => l.points.map((p) => p.x)))].sort((a, b) => a - b); }

  // Lines of one colour are told apart by their dashes; in a legend, so are all.
  dash(line) {
    const { index } = line, turn = index >> 2;
    return DASHES[(line.grey ? this.data.nulls.indexOf(index) : this.manner === "legend" ? index + turn : turn) % DASHES.length];
  }

  colour(line) {
    const cycle = ["query", "key", "value", "output"];
    return line.grey ? "var(--null)" : `var(--${cycle[line.index % cycle.length]})`;
  }

  key(event) {
    const steps = this.steps(this.lines()), now = this.at === null ? -1 : steps.indexOf(this.nearest(steps, this.at));
    const to = { ArrowRight: now + 1, ArrowUp: now + 1, ArrowLeft: now - 1, ArrowDown: now - 1, Home: 0, End: steps.length - 1,
      PageUp: now + 5, PageDown: now - 5 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    this.at = steps[clamp(to, 0, steps.length - 1)];
    this.draw();
  }

  point(event) {
    if (!this.scale) return;
    const box = this.svg.getBoundingClientRect();
    const at = this.nearest(this.steps(this.lines()), this.scale.back(event.clientX - box.left));
    if (at !== this.at) { this.at = at; this.draw(); }
  }

  nearest(steps, value) {
    const f = (v) => this.data.x.log ? Math.log(v) : v;
    return steps.reduce((best, v) => Math.abs(f(v) - f(value)) < Math.abs(f(best) - f(value)) ? v : best, steps[0]);
  }

  // The range of an axis over ALL choices, so that moving a slider moves the curve and not the axis.
  range(axis) {
    if (this.data[axis].range) return this.data[axis].range;
    const names = axis === "y" ? ["y", "low", "high", "dot_y"] : ["x"];
    let low = Infinity, high = -Infinity;
    for (const name of names) for (const v of this.arrays[name] ?? [])
      if (Number.isFinite(v) && !(this.data[axis].log && v <= 0)) { low = Math.min(low, v); high = Math.max(high, v); }
    if (low > high) [low, high] = [0, 1];
    if (low === high) [low, high] = this.data[axis].log ? [low / 2, high * 2] : [low - 0.5, high + 0.5];
    if (axis === "y" && !this.data.y.log) {
      const pad = (high - low) * 0.05;
      [low, high] = [low >= 0 && low - pad < 0 ? 0 : low - pad, high + pad];
    }
    return [low, high];
  }

  draw() {
    const width = Math.max(280, Math.min(this.plot.clientWidth, 820));
    if (!this.plot.clientWidth) return;
    const { data } = this, lines = this.lines(), em = parseFloat(getComputedStyle(this.plot).fontSize);
    const ink = document.createElement("canvas").getContext("2d");
    ink.font = `600 ${em}px ${getComputedStyle(this.plot).fontFamily}`;
    const wide = (text) => ink.measureText(text).width;
    if (this.fitted !== width) [this.fitted, this.manner] = [width, this.choose(width, em, wide)];
    const { X, Y, area, height, yTicks } = this.frame(width, em, wide, this.manner);
    this.scale = X;
    const named = lines.filter((l) => l.name !== null), parts = [el("line", { x1: area.left, x2: area.right, y1: area.bottom, y2: area.bottom, class: "axis" })];
    for (const t of yTicks) parts.push(
      el("line", { x1: area.left, x2: area.right, y1: Y(t), y2: Y(t), class: "grid" }),
      el("text", { x: area.left - 7, y: Y(t) + em * 0.34, "text-anchor": "end", text: round(t) }));
    for (const t of ticks(this.range("x"), data.x.log, width < 480 ? 4 : 7)) parts.push(
      el("line", { x1: X(t), x2: X(t), y1: area.bottom, y2: area.bottom + 4, class: "axis" }),
      el("text", { x: Math.min(X(t), width - wide(round(t)) / 2), y: area.bottom + em * 1.3, "text-anchor": "middle", text: round(t) }));
    for (const line of lines) parts.push(this.line(line, X, Y));
    if (this.at !== null && this.steps(lines).length) parts.push(...this.marker(lines, X, Y, area));
    if (this.manner !== "legend") parts.push(...this.labels(named, X, Y, em, this.manner, area).map(({ l, x, y, side }) =>
      el("text", { x, y, class: "name", style: `fill:${this.colour(l)}`, "text-anchor": side, text: l.name })));
    this.legend.replaceChildren(...this.manner === "legend" ? named.flatMap((l) => [this.entry(l), " "]) : []);
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.svg.setAttribute("width", width);
    this.svg.setAttribute("height", height);
    this.svg.replaceChildren(...parts);
    this.read(lines);
  }

  // The axes: scales, the area between them, and the ticks of y. Names at the ends of lines take room on the right.
  frame(width, em, wide, manner) {
    const { data } = this, [xr, yr] = [this.range("x"), this.range("y")], height = Math.round(clamp(width * 0.52, 230, 380) - 2.5 * em);
    const yTicks = ticks(yr, data.y.log, 5), left = Math.max(...yTicks.map((t) => wide(round(t)))) + 12;
    const room = manner === "end" ? Math.max(4, ...data.names.filter(Boolean).map(wide)) + 14 : 18;
    const area = { left, right: width - room, top: em, bottom: height - em * 1.7 };
    const to = (range, log, a, b) => {
      const f = log ? Math.log : (v) => v, [p, q] = range.map(f);
      return Object.assign((v) => a + (f(v) - p) / (q - p) * (b - a), { back: (c) => { const v = p + (c - a) / (b - a) * (q - p); return log ? Math.exp(v) : v; } });
    };
    return { X: to(xr, data.x.log, area.left, area.right), Y: to(yr, data.y.log, area.bottom, area.top), area, height, yTicks };
  }

  // How lines are named, in all choices alike, so that a slider moves no axis: at their ends, where they are farthest
  // apart, or, where names would touch each other, an axis or the border, in a legend below.
  choose(width, em, wide) {
    const count = this.chosen.length, starts = this.data.segments.map((s) => s.slice(0, count));
    const all = [...new Map(starts.map((s) => [s.join(), s])).values()].map((s) => this.lines(s).filter((l) => l.name !== null));
    return ["end", "inside"].find((manner) => {
      const { X, Y, area } = this.frame(width, em, wide, manner);
      if (manner === "end" && (width < 480 || area.right - area.left < width * 0.6)) return false;
      return all.every((lines) => {
        const boxes = this.labels(lines, X, Y, em, manner, area).map(({ l, x, y, side, moved }) => {
          const size = wide(l.name), left = x - { start: 0, middle: size / 2, end: size }[side];
          return { l, left, right: left + size, top: y - em * 0.95, bottom: y + em * 0.25, moved };
        });
        const apart = (a, b) => a.right < b.left || b.right < a.left || a.bottom <= b.top || b.bottom <= a.top;
        // Pieces of a line, 8 between two points, as boxes of no size.
        const bits = (l) => l.points.slice(1).flatMap((p, i) => Array.from({ length: 9 }, (_, k) => {
          const q = l.points[i], x = X(q.x) + (X(p.x) - X(q.x)) * k / 8, y = Y(q.y) + (Y(p.y) - Y(q.y)) * k / 8;
          return { left: x, right: x, top: y, bottom: y };
        }));
        return boxes.every((a) => a.moved < em * 0.6 && a.left >= area.left && a.right <= width && a.top >= 0
          && a.bottom <= area.bottom + em * 0.6 && boxes.every((b) => a === b || apart(a, b)) && lines.every((l) => l === a.l || bits(l).every((b) => apart(a, b))));
      });
    }) ?? "legend";
  }

  entry(line) {
    return el("span", { class: "item", style: `color:${this.colour(line)}` }, el("svg", { width: 34, height: 10 },
      el("line", { x1: 0, x2: 34, y1: 5, y2: 5, class: "curve", "stroke-dasharray": this.dash(line) })), el("b", { text: ` ${line.name}` }));
  }

  line(line, X, Y) {
    const good = line.points.filter((p) => Number.isFinite(p.y)), colour = this.colour(line);
    const trace = (points, key) => points.map((p, i) => `${i ? "L" : "M"}${X(p.x).toFixed(1)} ${Y(p[key]).toFixed(1)}`).join("");
    const group = el("g", { style: `color:${colour}` });
    const spread = good.filter((p) => Number.isFinite(p.low) && Number.isFinite(p.high));
    if (spread.length > 1)
      group.append(el("path", { class: "band", d: `${trace(spread, "high")}L${trace([...spread].reverse(), "low").slice(1)}Z` }));
    for (const d of line.dots) if (Number.isFinite(d.y)) group.append(el("circle", { class: "dot", cx: X(d.x), cy: Y(d.y), r: 2.2 }));
    // A missing value breaks the line instead of being bridged.
    const runs = [[]];
    for (const p of line.points) Number.isFinite(p.y) ? runs.at(-1).push(p) : runs.push([]);
    group.append(el("path", { class: "curve", "stroke-dasharray": this.dash(line), d: runs.filter((r) => r.length).map((r) => trace(r, "y")).join("") }));
    if (good.length < 25) for (const p of good) group.append(el("circle", { class: "knot", cx: X(p.x), cy: Y(p.y), r: 2.8 }));
    return group;
  }

  marker(lines, X, Y, area) {
    const at = this.nearest(this.steps(lines), this.at);
    return [el("line", { x1: X(at), x2: X(at), y1: area.top, y2: area.bottom, class: "cursor" }),
      ...lines.flatMap((l) => l.points.filter((p) => p.x === at && Number.isFinite(p.y)).map((p) =>
        el("circle", { cx: X(p.x), cy: Y(p.y), r: 4.5, class: "ring", style: `color:${this.colour(l)}` })))];
  }

  // Where the lines are farthest apart, as a share of the y axis.
  spot(lines) {
    const { data } = this, scale = data.y.log ? Math.log : (v) => v, [low, high] = this.range("y").map(scale);
    const gap = (at) => {
      const ys = lines.flatMap((l) => l.points.filter((p) => p.x === at && Number.isFinite(p.y)).map((p) => scale(p.y))).sort((a, b) => a - b);
      return ys.length < lines.length ? -1 : Math.min(1, ...ys.slice(1).map((v, i) => (v - ys[i]) / (high - low)));
    };
    const steps = this.steps(lines);
    return steps.reduce((best, v) => gap(v) > gap(best) ? v : best, steps[0] ?? null);
  }

  // Where names stand: beside the ends of the lines, or on the lines; `moved` by how much where they would touch.
  labels(lines, X, Y, em, manner, area) {
    const inside = manner === "inside", spot = inside ? this.spot(lines) : null;
    const ends = lines.map((l) => {
      const good = l.points.filter((p) => Number.isFinite(p.y));
      return { l, good, p: (inside && good.find((p) => p.x === spot)) || good.at(-1) };
    }).filter((e) => e.p).map((e) => ({ ...e, y: Y(e.p.y) - (inside ? em * 0.75 : 0), moved: 0 })).sort((a, b) => a.y - b.y);
    ends.forEach((e, i) => {
      e.moved = i ? Math.max(0, ends[i - 1].y + em * 1.2 - e.y) : 0;
      e.y += e.moved;
    });
    return ends.map(({ l, good, p, y, moved }) => {
      const x = X(p.x), i = good.indexOf(p), rise = Y((good[i - 1] ?? p).y) - Y((good[i + 1] ?? p).y);  // a name stands on the free side of a steep line
      const side = !inside || x < area.left + 60 ? "start" : x > area.right - 60 || rise > 20 ? "end" : rise < -20 ? "start" : "middle";
      return { l, moved, side, x: x + (inside ? { start: 6, end: -6, middle: 0 }[side] : 9), y: y + em * 0.34 };
    });
  }

  read(lines) {
    const { data } = this, steps = this.steps(lines);
    if (!steps.length) return void this.readout.replaceChildren(el("span", { class: "muted", text: "nothing was computed for this choice" }));
    const at = this.at === null ? steps.at(-1) : this.nearest(steps, this.at);
    const items = lines.flatMap((l) => l.points.filter((p) => p.x === at).map((p) => {
      const spread = Number.isFinite(p.low) && Number.isFinite(p.high) ? ` (${round(p.low)} to ${round(p.high)})` : "";
      return el("span", { class: "item" }, el("b", { style: `color:${this.colour(l)}`, text: l.name ?? data.y.label }), ` ${round(p.y)}${spread}`);
    }));
    this.readout.replaceChildren(el("span", { class: "muted", text: `${data.x.label} = ${round(at)}: ` }), ...items.flatMap((i) => [i, " "]));
    const text = this.readout.textContent;
    for (const [name, value] of Object.entries({ valuemin: 0, valuemax: steps.length - 1, valuenow: steps.indexOf(at), valuetext: text }))
      this.plot.setAttribute(`aria-${name}`, value);
  }
}
CurveExplorer.style = `
  .plot { margin-top: .4em; cursor: crosshair; touch-action: pan-y; }
  svg { display: block; overflow: visible; }
  svg text { fill: var(--ink); font-size: 1em; }
  .below { text-align: center; }
  .grid { stroke: var(--null); opacity: .18; }
  .axis { stroke: var(--null); }
  .cursor { stroke: var(--null); stroke-dasharray: 3 3; }
  .band { fill: currentColor; opacity: .16; }
  .dot { fill: currentColor; opacity: .45; }
  .knot { fill: currentColor; }
  .curve { fill: none; stroke: currentColor; stroke-width: 2; stroke-linejoin: round; }
  .ring { fill: var(--back); stroke: currentColor; stroke-width: 2.5; }
  .name { font-weight: 600; paint-order: stroke; stroke: var(--back); stroke-width: 4px; stroke-linejoin: round; }
  .legend { margin: .2em 0 .4em; }
  .legend svg { display: inline; vertical-align: middle; }
  .readout { margin: .2em 0 0; min-height: 1.5em; font-variant-numeric: tabular-nums; }
  .item { margin-right: 1em; display: inline-block; }
  .controls { margin: .4em 0; }`;
if (!customElements.get("curve-explorer")) customElements.define("curve-explorer", CurveExplorer);
