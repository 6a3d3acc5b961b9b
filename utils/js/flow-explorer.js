// <flow-explorer>: one token followed through the layers, on a graph of tokens × layers.
// data: { title, hint, tokens, special: [0/1], views: [{ name, from, to, unit }], open: { token, side, view } }
// arrays: from, to (views, layers + 1, receiving, sending); edges (layers, receiving, sending)
const figure = (v) => v.toFixed(v >= 0.0995 ? 2 : 3);

class FlowExplorer extends BookElement {
  build() {
    const { data } = this;
    this.arrays = Object.fromEntries(Object.entries(data.arrays).map(([name, item]) => [name, unpack(item)]));
    [this.count, this.levels, this.n] = this.arrays.from.shape;
    this.state = { ...data.open, at: null };
    this.controls = el("div", { class: "options controls" }, el("fieldset", {}, el("legend", { text: "show" }),
      ...data.views.map((view, i) => el("label", {}, el("input", { type: "radio", name: "view", checked: i === data.open.view,
        onchange: () => { this.state.view = i; this.draw(); } }), ` ${view.name}`))));
    const side = (name, label) => {
      const box = el("div", { class: `side ${name}`, role: "listbox", "aria-label": label }, ...data.tokens.map((text, i) =>
        el("div", { role: "option", class: data.special[i] ? "special" : "", onclick: () => this.choose(name, i, true) }, el("bdi", { text }))));
      box.addEventListener("keydown", (event) => this.key(event, name));
      return box;
    };
    this.sides = { from: side("from", "Input: the token whose content is followed"),
      to: side("to", "Output: the position whose sources are shown") };
    this.svg = el("svg", { "aria-hidden": "true" });
    this.svg.addEventListener("pointermove", (event) => this.point(event));
    this.svg.addEventListener("pointerdown", (event) => this.point(event));
    this.svg.addEventListener("pointerleave", () => { this.state.at = null; this.read(); });
    this.readout = el("p", { class: "readout", "aria-live": "polite" });
    this.numbers = el("details", { class: "numbers", ontoggle: () => this.fillTable() }, el("summary", { text: "All numbers of this token" }),
      el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "All numbers of this token" }));
    this.box.append(...data.title ? [el("p", { class: "title" }, ...rich(data.title))] : [], el("p", { class: "hint", text: data.hint }),
      this.controls, el("div", { class: "heads" }, el("span", { class: "k", text: "input" }), el("span", { class: "muted", text: "after layer" }),
        el("span", { class: "q", text: "output" })),
      el("div", { class: "graph" }, this.sides.from, this.svg, this.sides.to), this.readout, this.numbers);
  }

  // Amount at a place: what of the chosen input is there, or how much of it reaches the chosen output.
  value(level, place) {
    const { side, token, view } = this.state, { n, levels } = this;
    const base = (view * levels + level) * n * n;
    return side === "from" ? this.arrays.from[base + place * n + token] : this.arrays.to[base + token * n + place];
  }

  // The largest amount of this view, over all tokens: the same scale whichever token is followed.
  limit(name) {
    const { view } = this.state, size = this.levels * this.n * this.n, values = this.arrays[name].subarray(view * size, (view + 1) * size);
    return values.reduce((a, b) => Math.max(a, b), 0) || 1;
  }

  choose(side, token, focus = false) {
    Object.assign(this.state, { side, token, at: null });
    this.draw();
    if (focus) this.sides[side].children[token].focus({ preventScroll: true });
  }

  key(event, side) {
    const last = this.n - 1, now = [...this.sides[side].children].indexOf(event.target.closest("[role=option]"));
    const other = { ArrowRight: "to", ArrowLeft: "from" }[event.key];
    const to = { ArrowUp: now - 1, ArrowDown: now + 1, Home: 0, End: last, PageUp: now - 5, PageDown: now + 5, Enter: now, " ": now }[event.key];
    if (to === undefined && !other) return;
    event.preventDefault();
    this.choose(other ?? side, clamp(to ?? now, 0, last), true);
  }

  point(event) {
    if (!this.scale) return;
    const box = this.svg.getBoundingClientRect(), { step, left } = this.scale;
    const level = clamp(Math.round((event.clientX - box.left - left) / step), 0, this.levels - 1);
    const place = clamp(Math.floor((event.clientY - box.top) / this.scale.row), 0, this.n - 1);
    const ends = { 0: "from", [this.levels - 1]: "to" };
    if (event.type === "pointerdown" && ends[level]) return this.choose(ends[level], place);
    this.state.at = [level, place];
    this.read();
  }

  draw() {
    const { n, levels, state } = this, row = 24, width = this.svg.parentNode.clientWidth && this.svg.clientWidth;
    if (!width) return;
    const left = 12, step = (width - 2 * left) / (levels - 1), x = (level) => left + level * step, y = (place) => (place + 0.5) * row;
    this.scale = { left, step, row };
    const top = this.limit(state.side), shade = (v) => Math.sqrt(clamp(v / top, 0, 1));
    const parts = [], lines = [];
    for (let level = 0; level + 1 < levels; level++) for (let to = 0; to < n; to++) for (let from = 0; from < n; from++) {
      // An edge: what stands at its start (or what its end passes on) times the weight, at most what is at the other end.
      const amount = this.value(state.side === "from" ? level : level + 1, state.side === "from" ? from : to);
      const kept = from === to ? Math.min(this.value(level, from), this.value(level + 1, from))
        : Math.min(amount * this.arrays.edges[(level * n + to) * n + from], this.value(...state.side === "from" ? [level + 1, to] : [level, from]));
      if (shade(kept) > 0.09) lines.push({ level, from, to, w: shade(kept) });
    }
    for (const { level, from, to, w } of lines.sort((a, b) => a.w - b.w))
      parts.push(el("line", { x1: x(level), y1: y(from), x2: x(level + 1), y2: y(to), class: from === to ? "stay" : "edge",
        "stroke-width": (0.6 + 5 * w).toFixed(2), "stroke-opacity": (0.12 + 0.6 * w).toFixed(3) }));
    for (let level = 0; level < levels; level++) {
      for (let place = 0; place < n; place++) {
        const v = shade(this.value(level, place));
        parts.push(el("circle", { cx: x(level), cy: y(place), r: (2 + 6.5 * v).toFixed(1), class: "node", "fill-opacity": (0.15 + 0.85 * v).toFixed(3) }));
      }
      parts.push(el("text", { x: x(level), y: n * row + 15, "text-anchor": "middle", text: level ? `${level - 1}` : "in" }));
    }
    const mark = state.side === "from" ? 0 : levels - 1;
    parts.push(el("circle", { cx: x(mark), cy: y(state.token), r: 10, class: `ring ${state.side}` }));
    this.svg.setAttribute("viewBox", `0 0 ${width} ${n * row + 22}`);
    this.svg.setAttribute("height", n * row + 22);
    this.svg.replaceChildren(...parts);
    for (const [name, box] of Object.entries(this.sides)) [...box.children].forEach((option, i) => {
      const chosen = name === state.side && i === state.token;
      option.setAttribute("aria-selected", chosen);
      option.tabIndex = chosen || (name !== state.side && i === state.token) ? 0 : -1;
      const end = this.value(name === "from" ? 0 : levels - 1, i);
      option.style.setProperty("--strength", shade(end).toFixed(2));
    });
    this.read();
    this.fillTable();
  }

  read() {
    const { state, levels, n, data } = this, view = data.views[state.view], chosen = data.tokens[state.token];
    const name = (i, kind) => el("bdi", { class: kind, text: data.tokens[i] });
    const here = state.side === "from" ? "k" : "q", there = state.side === "from" ? "q" : "k";
    if (state.at) {
      const [level, place] = state.at;
      return void this.readout.replaceChildren(name(state.token, here), ` (${state.token + 1} of ${n}): `, name(place, there),
        ` ${level ? `after layer ${level - 1}` : "at the input"}: ${figure(this.value(level, place))}`);
    }
    const end = state.side === "from" ? levels - 1 : 0;
    const best = data.tokens.map((_, i) => i).filter((i) => i !== state.token).sort((a, b) => this.value(end, b) - this.value(end, a)).slice(0, 4);
    this.readout.replaceChildren(name(state.token, here), ` (${state.token + 1} of ${n}), ${view[state.side]}: `,
      el("span", { class: "item" }, "itself ", figure(this.value(end, state.token))),
      ...best.flatMap((i) => [" · ", el("span", { class: "item" }, name(i, there), ` ${figure(this.value(end, i))}`)]),
      el("span", { class: "muted", text: ` (${view.unit})` }));
    this.readout.dataset.token = chosen;
  }

  fillTable() {
    if (!this.numbers.open) return;
    const { levels, data, state } = this, head = Array.from({ length: levels }, (_, l) => l ? `${l - 1}` : "in");
    this.numbers.lastChild.replaceChildren(el("table", {}, el("caption", {}, `${state.side === "from" ? "from" : "to"} `,
      el("bdi", { text: data.tokens[state.token] }), ", after each layer"),
      el("thead", {}, el("tr", {}, el("th", { scope: "col", text: "token" }), ...head.map((text) => el("th", { scope: "col", text })))),
      el("tbody", {}, ...data.tokens.map((text, i) => el("tr", {}, el("th", { scope: "row" }, el("bdi", { text })),
        ...head.map((_, l) => el("td", { text: figure(this.value(l, i)) })))))));
  }
}
FlowExplorer.style = `
  .heads, .graph { display: grid; grid-template-columns: minmax(4.4rem, 6.5rem) minmax(6.5rem, 34rem) minmax(4.4rem, 6.5rem); column-gap: .5em; }
  .heads { font-size: .92em; margin-top: .5em; }
  .heads span:first-child { text-align: right; } .heads .muted { text-align: center; }
  .q { color: var(--query); } .k { color: var(--key); } .q, .k { font-weight: 600; }
  .side div { height: 24px; line-height: 24px; padding: 0 .3em; cursor: pointer; overflow: hidden; white-space: nowrap; text-overflow: ellipsis; }
  .side.from div { text-align: right; }
  .side div:hover { background: color-mix(in srgb, var(--null) 16%, transparent); }
  .side.from [aria-selected=true] { color: var(--key); font-weight: 700; background: color-mix(in srgb, var(--key) 8%, transparent); }
  .side.to [aria-selected=true] { color: var(--query); font-weight: 700; background: color-mix(in srgb, var(--query) 8%, transparent); }
  .side :focus-visible { outline-offset: -2px; }
  .special { font-style: italic; }
  svg { display: block; width: 100%; cursor: crosshair; touch-action: pan-y; }
  svg text { fill: var(--null); font-size: .9em; }
  .edge { stroke: var(--value); } .stay { stroke: var(--null); }
  .node { fill: var(--value); }
  .ring { fill: none; stroke-width: 2.5; } .ring.from { stroke: var(--key); } .ring.to { stroke: var(--query); }
  .readout { margin: .3em 0; min-height: 2.9em; font-variant-numeric: tabular-nums; }
  .item { display: inline-block; }
  summary { cursor: pointer; color: var(--null); width: fit-content; padding: 3px 0; }
  .scroll { max-height: 18em; overflow: auto; } caption { text-align: left; }
  table { border-collapse: collapse; font-variant-numeric: tabular-nums; } th, td { text-align: left; padding: .1em .8em .1em 0; font-weight: 400; border: 0; }
  thead th { color: var(--null); }
  @media print { .numbers, summary { display: none; } }`;
if (!customElements.get("flow-explorer")) customElements.define("flow-explorer", FlowExplorer);
