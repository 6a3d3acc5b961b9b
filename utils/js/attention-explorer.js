// <attention-explorer>: all heads of a model over one text; choose a head, read its rows. Drawing: attention-picture.js.
// data: see utils/explorer.py. arrays: weights and other (uint8: square roots), statistics, profile, dropped (float32).
class AttentionExplorer extends AttentionPicture {
  build() {
    const began = performance.now(), { data } = this, { arrays } = data;
    this.maps = [arrays.weights, arrays.other].filter(Boolean).map((item) => decode(unpack(item)));
    [this.layers, this.heads, this.queries, this.keys] = arrays.weights.shape;
    for (const name of ["statistics", "profile", "dropped"]) this[name] = arrays[name] && unpack(arrays[name]);
    delete data.arrays;
    this.counted = Array.from({ length: this.statistics.shape[0] }, (_, m) => m);
    this.state = { ...data.open, column: null, hover: null, show: this.maps.length > 1 ? 2 : 0 };
    this.compare = this.maps.length > 1;
    this.frame();
    this.drawScale();
    this.look();
    this.buildTime = performance.now() - began;
  }

  // ---- what is seen: words or pieces, special tokens kept or dropped

  side(which) {
    const { words, special } = this.state, side = this.data[which], items = [], seen = new Map();
    side.labels.forEach((label, piece) => {
      if (!special && side.special[piece]) return;
      const group = words ? side.groups[piece] : piece;
      if (seen.has(group)) return seen.get(group).pieces.push(piece);
      const item = { label: words ? side.words[group] : label, pieces: [piece], special: side.special[piece] };
      seen.set(group, item);
      items.push(item);
    });
    return items;
  }

  look() {
    this.rows = this.side("queries");
    this.columns = this.side("keys");
    this.views = this.maps.map((map) => this.view(map));
    this.fill();
  }

  get block() { return this.state.layer * this.heads + this.state.head; }
  get row() {
    const piece = this.state.hover ?? this.state.row, { rows } = this;
    const found = rows.findIndex((item) => item.pieces.includes(piece));
    return found >= 0 ? found : Math.max(0, rows.findLastIndex((item) => item.pieces[0] <= piece));
  }

  // ---- the parts of the page

  frame() {
    const { data } = this, n = (i) => `${data.layers[i]}`;
    const cells = data.layers.map((_, l) => Array.from({ length: this.heads }, (_, h) => el("button", {
      role: "gridcell", tabindex: -1, "data-role": this.tone(l, h), "aria-label": this.describe(l, h), title: this.describe(l, h),
      onclick: () => this.choose(l, h) })));
    this.cells = cells;
    this.thumbs = el("canvas", { "aria-hidden": "true" });
    this.grid = el("div", { class: "grid", role: "grid", "aria-label": `heads: ${this.layers} layers, ${this.heads} heads each` },
      el("div", { role: "row", class: "row" }, el("span", { role: "columnheader", class: "corner", text: "layer" }),
        ...Array.from({ length: this.heads }, (_, h) => el("span", { role: "columnheader", text: h }))),
      ...cells.map((row, l) => el("div", { role: "row", class: "row" }, el("span", { role: "rowheader", text: n(l) }), ...row)));
    this.grid.addEventListener("keydown", (event) => this.keyHead(event));
    this.card = el("div", { class: "card" });
    this.panes = (this.compare ? [0, 1, 2] : [0]).map((show) => {
      const canvas = el("canvas", { "aria-hidden": "true" });
      const name = this.compare ? ["", "", "change"][show] + (show < 2 ? data.names[show] : "") : "";
      const box = el("div", { class: "pane", tabindex: 0, role: "application", "aria-roledescription": "attention matrix",
        "aria-label": `${name} matrix, row = query (from), column = key (to). Arrow keys move the row and the column.` }, canvas);
      if (name) box.prepend(el("div", { class: "name", text: name }));
      const pane = { show, canvas, box };
      box.addEventListener("keydown", (event) => this.keyCell(event));
      canvas.addEventListener("pointermove", (event) => event.pointerType === "mouse" && this.point(pane, event, false));
      canvas.addEventListener("click", (event) => this.point(pane, event, true));
      canvas.addEventListener("pointerleave", (event) => this.leave(event));
      return pane;
    });
    this.from = el("div", { class: "from", role: "listbox", "aria-label": "query (from)" });
    this.to = el("div", { class: "to", role: "list", "aria-label": "key (to)" });
    this.lines = el("canvas", { "aria-hidden": "true", class: "lines" });
    this.list = el("div", { class: "list" }, this.from, el("div", { class: "between" }, this.lines), this.to);
    this.list.addEventListener("scroll", () => { this.drawLines(); this.drawPanes(); });
    this.from.addEventListener("keydown", (event) => this.keyRow(event));
    for (const side of [this.from, this.to]) side.addEventListener("pointerleave", (event) => this.leave(event));
    this.readout = el("p", { class: "readout", role: "status" });
    this.scale = el("div", { class: "scale" });
    this.numbers = el("details", { class: "numbers", ontoggle: () => this.fillTable() }, el("summary", { text: "All numbers of this row" }),
      el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "all numbers of this row" }));
    this.main = el("div", { class: "main" }, el("div", { class: "panes" }, ...this.panes.map((p) => p.box)),
      el("div", { class: "words" }, el("div", { class: "heads" }, el("span", { class: "q", text: "from (query)" }), el("span", { class: "k", text: "to (key)" })), this.list));
    this.box.append(...data.title ? [el("p", { class: "title" }, ...rich(data.title))] : [],
      el("p", { class: "hint", text: data.hint }), ...this.compare ? [this.switch("show", "Grid and lines show", [...data.names, "change"])] : [],
      el("div", { class: "top" }, el("div", { class: "all", style: `--heads:${this.heads};--cell:${this.heads > 8 ? 3.2 : 5}em` }, el("p", { class: "muted axes", "aria-hidden": "true", text: "layer ↓  head →" }),
        el("div", { class: "gridbox" }, this.thumbs, this.grid), this.legend()), this.card), this.main, this.readout, this.scale, this.options(), this.numbers,
      ...data.notices.map((text) => el("p", { class: "muted", text })));
  }

  switch(name, label, values, read = (i) => i, write = (i) => i) {
    return el("fieldset", { class: "controls" }, el("legend", { text: label }), ...values.map((text, i) => el("label", {},
      el("input", { type: "radio", name, checked: this.state[name] === write(i), onchange: () => { this.state[name] = write(i); this.look(); this.draw(); } }), ` ${text}`)));
  }

  options() {
    const { data, state } = this, output = el("output", { text: state.threshold.toFixed(2) });
    const parts = [];
    const pieces = data.queries.words.length < data.queries.labels.length || data.keys.words.length < data.keys.labels.length;
    if (pieces) parts.push(this.switch("words", "Show", ["pieces", "words"], Number, Boolean));
    if ([...data.queries.special, ...data.keys.special].includes(1))
      parts.push(this.switch("special", "Special tokens", ["dropped", "kept"], Number, Boolean));
    parts.push(el("label", {}, el("span", { class: "muted", text: "Lines from weight " }), el("input", { type: "range", min: 0, max: 0.5, step: 0.01,
      value: state.threshold, oninput: (event) => { state.threshold = +event.target.value; output.textContent = state.threshold.toFixed(2); this.draw(); } }), " ", output));
    return el("details", { class: "more" }, el("summary", { text: "Options" }), el("div", { class: "options" }, ...parts));
  }

  legend() {
    const counts = new Map();
    for (const role of (this.data.roles ?? []).flat()) counts.set(role, (counts.get(role) ?? 0) + 1);
    const order = [...counts].sort((a, b) => (a[0] === "unlabelled") - (b[0] === "unlabelled") || b[1] - a[1]);
    return el("p", { class: "legend", hidden: !order.length }, ...order.flatMap(([role, count]) =>
      [el("span", { class: "chip", "data-role": this.toneOf(role), text: `${role} ${count}` }), " "]));
  }

  toneOf(role) {
    return /token$/.test(role) ? "positional" : ["sink", "syntactic", "rare"].find((name) => role.includes(name)) ?? "unlabelled";
  }
  role(l, h) { return this.data.roles?.[l]?.[h] ?? null; }
  tone(l, h) { return this.toneOf(this.role(l, h) ?? ""); }
  statistic(map, s, l, h) { return this.statistics[((map * this.data.columns.length + s) * this.layers + l) * this.heads + h]; }
  describe(l, h) {
    const role = this.role(l, h), first = this.data.columns.slice(0, 2).map((c, s) => `${c.label} ${this.format(c.unit, [this.statistic(0, s, l, h)])}`);
    return `layer ${this.data.layers[l]}, head ${h}${role ? `: ${role}` : ""}; ${first.join(", ")}`;
  }
  // A statistic of one or two maps: "1.70 nats", "41 → 13 %".
  format(unit, values) {
    const text = (v) => !Number.isFinite(v) ? "–" : unit === "%" ? (100 * v).toFixed(0) : unit ? v.toFixed(2) : offset(v);
    return `${values.map(text).join(" → ")} ${unit}`.trim();
  }

  // The two lists of words.
  fill() {
    const { rows, columns } = this;
    const text = (label) => el("bdi", { text: label, title: label.length > 14 ? label : null });
    this.from.replaceChildren(...rows.map((item, r) => el("div", { role: "option", tabindex: -1, class: item.special ? "special" : "",
      onpointerenter: (event) => event.pointerType === "mouse" && this.hover(item.pieces[0]),
      onclick: () => this.pin(item.pieces[0]) }, text(item.label))));
    this.to.replaceChildren(...columns.map((item, c) => el("div", { role: "listitem", class: item.special ? "special" : "",
      onpointerenter: (event) => { if (event.pointerType === "mouse") { this.state.column = c; this.draw(); } },
      onclick: () => { this.state.column = c; this.draw(); } }, text(item.label), el("span", { class: "weight" }))));
    this.state.column = null;
    this.widths = null;
  }

  // ---- choosing and reading

  choose(l, h, focus = false) {
    Object.assign(this.state, { layer: l, head: h });
    this.draw();
    if (focus) this.cells[l][h].focus({ preventScroll: true });
  }
  hover(piece) { if (this.state.hover !== piece) { this.state.hover = piece; this.draw(); } }
  pin(piece, focus = false) {
    Object.assign(this.state, { row: piece, hover: null });
    this.draw();
    this.reveal();
    if (focus) this.from.children[this.row].focus({ preventScroll: true });
  }
  leave(event) {
    if (event.pointerType !== "mouse") return;
    Object.assign(this.state, { hover: null, column: null });
    this.draw();
    this.reveal();
  }

  point(pane, event, keep) {
    const box = pane.canvas.getBoundingClientRect(), g = pane.geometry;
    const r = Math.floor((event.clientY - box.top - g.top) / g.ch), c = Math.floor((event.clientX - box.left - g.left) / g.cw);
    if (r < 0 || c < 0 || r >= this.rows.length || c >= this.columns.length) return this.leave(event);
    this.state.column = c;
    const piece = this.rows[r].pieces[0];
    keep ? this.pin(piece) : (this.state.hover = piece, this.draw(), this.reveal());
  }

  keyHead(event) {
    const { layer, head } = this.state, last = this.heads - 1;
    const to = { ArrowRight: [layer, head + 1], ArrowLeft: [layer, head - 1], ArrowUp: [layer - 1, head], ArrowDown: [layer + 1, head],
      Home: [layer, 0], End: [layer, last] }[event.key];
    if (!to) return;
    event.preventDefault();
    this.choose(clamp(to[0], 0, this.layers - 1), clamp(to[1], 0, last), true);
  }
  step(event, focus) {
    const last = this.rows.length - 1, now = this.row;
    const to = { ArrowUp: now - 1, ArrowDown: now + 1, PageUp: now - 10, PageDown: now + 10, Home: 0, End: last }[event.key];
    if (to === undefined) return false;
    event.preventDefault();
    this.pin(this.rows[clamp(to, 0, last)].pieces[0], focus);
    return true;
  }
  keyRow(event) { this.step(event, true); }
  keyCell(event) {
    const last = this.columns.length - 1, now = this.state.column;
    const to = { ArrowLeft: (now ?? 1) - 1, ArrowRight: (now ?? -1) + 1, Home: 0, End: last, Escape: null }[event.key];
    if (to === undefined) return void this.step(event, false);
    event.preventDefault();
    this.state.column = to === null ? null : clamp(to, 0, last);
    this.draw();
  }

  reveal() {
    const middle = (this.row + 0.5) * this.rh, { scrollTop, clientHeight } = this.list;
    if (middle < scrollTop + this.rh || middle > scrollTop + clientHeight - this.rh) this.list.scrollTop = middle - clientHeight / 2;
  }

  top(count) {
    const { block, row, state } = this;
    return this.columns.map((_, c) => ({ c, w: this.value(state.show, block, row, c) })).filter(({ w }) => w)
      .sort((a, b) => (Math.abs(b.w) || 0) - (Math.abs(a.w) || 0)).slice(0, count);
  }

  // The numbers of the row in words.
  read() {
    const { state, row, block, columns, rows } = this;
    const values = (c) => this.compare
      ? `${number(this.value(0, block, row, c))} → ${number(this.value(1, block, row, c))} (${signed(this.value(2, block, row, c))})`
      : number(this.value(0, block, row, c));
    const item = (c, name) => el("span", { class: "item" }, el("bdi", { class: "k", text: columns[c].label }), ` ${values(c)}`);
    const name = () => el("bdi", { class: "q", text: rows[row].label });
    const parts = state.column === null ? [] : [el("span", { class: "item cell" }, name(), " → ", item(state.column)), " "];
    const list = this.top(this.compare ? 3 : 5);
    const missing = columns.filter((_, c) => Number.isNaN(this.value(state.show, block, row, c))).length;
    this.readout.replaceChildren(...parts, name(), ` (${row + 1} of ${rows.length}) reads `,
      ...missing ? [`${missing} missing, `] : [], ...list.length ? list.flatMap(({ c }, i) => [i ? " · " : "", item(c)]) : ["nothing"]);
  }

  fillTable() {
    if (!this.numbers.open) return;
    const { columns, block, row, rows } = this, shows = this.panes.map((p) => p.show);
    const head = this.compare ? [...this.data.names, "change"] : ["weight"];
    this.numbers.lastChild.replaceChildren(el("table", {}, el("caption", {}, "from ", el("bdi", { text: rows[row].label })),
      el("thead", {}, el("tr", {}, ...["to (key)", ...head].map((text) => el("th", { scope: "col", text })))),
      el("tbody", {}, ...columns.map((item, c) => el("tr", {}, el("th", { scope: "row" }, el("bdi", { text: item.label })),
        ...shows.map((show) => el("td", { text: (show < 2 ? number : signed)(this.value(show, block, row, c)) })))))));
  }
}
AttentionExplorer.style = `
  .hint { margin-bottom: .7em; }
  .q { color: var(--query); } .k { color: var(--key); } .q, .k { font-weight: 600; }
  .top { display: flex; flex-wrap: wrap; gap: .8em 1.6em; align-items: flex-start; }
  .all { flex: 1 1 22em; max-width: max(16em, 2.2em + var(--heads) * var(--cell)); min-width: 0; }
  .axes { font-size: .85em; white-space: pre; } .gridbox { position: relative; overflow-x: auto; padding: 4px; margin-left: -4px; }
  .gridbox canvas { position: absolute; inset: 4px auto auto 4px; }
  .grid { position: relative; font-size: .85em; min-width: calc(2.2em + var(--heads) * 27px); }
  .row { display: grid; grid-template-columns: 2.2em repeat(var(--heads), minmax(0, var(--cell))); gap: 3px; margin-bottom: 3px; align-items: center; text-align: center; }
  .row span { color: var(--null); font-variant-numeric: tabular-nums; }
  .corner { font-size: 0; }
  .grid button { all: unset; box-sizing: border-box; aspect-ratio: 1; cursor: pointer; border: 1px solid color-mix(in srgb, var(--null) 45%, transparent); border-bottom: 3px solid var(--tone, transparent); }
  .grid button:hover { border-color: var(--ink); }
  .grid button[aria-selected=true] { outline: 2.5px solid var(--ink); outline-offset: 0; }
  .grid button:focus-visible { outline: 3px solid var(--query); outline-offset: 1px; }
  [data-role=positional] { --tone: var(--positional); } [data-role=sink] { --tone: var(--sink); }
  [data-role=syntactic] { --tone: var(--syntactic); } [data-role=rare] { --tone: var(--rare); }
  .chip { display: inline-block; padding-left: .45em; border-left: .55em solid var(--tone, var(--unlabelled)); margin-right: .9em; }
  .legend { margin: .2em 0 0; font-size: .92em; }
  .card { flex: 1 1 13em; min-width: 12em; max-width: 22em; }
  .card p { margin: 0 0 .3em; } .source { font-size: .9em; }
  dl { display: grid; grid-template-columns: auto auto; gap: .05em .8em; margin: 0 0 .4em; justify-content: start; }
  dt { color: var(--null); } dd { margin: 0; white-space: nowrap; font-variant-numeric: tabular-nums; }
  .profile { display: flex; gap: 3px; margin: .1em 0 .3em; }
  .profile span { width: 1.9em; text-align: center; line-height: 1.2; }
  .profile b { display: flex; align-items: end; height: 2.4em; background: color-mix(in srgb, var(--null) 12%, transparent); }
  .profile i { background: var(--positional); flex: 1; min-height: 1px; }
  .profile small { color: var(--null); }
  .main { margin: .8em 0 .3em; display: flex; gap: .8em; align-items: flex-start; }
  .main.stacked { flex-direction: column; }
  .panes { display: flex; gap: .8em; flex: none; } .pane .name { font-size: .92em; white-space: nowrap; }
  .pane canvas { display: block; cursor: crosshair; }
  .words { flex: 1 1 auto; min-width: 0; width: 100%; max-width: 44em; }
  .heads { display: grid; align-items: end; height: var(--head); padding-bottom: 2px; font-size: .92em; white-space: nowrap; }
  .heads .k { grid-column: 3; }
  .aligned .heads .q { padding-left: .4em; }
  .list { display: grid; overflow-y: auto; overflow-x: hidden; position: relative; scrollbar-gutter: auto; }
  .between { position: sticky; top: 0; height: 0; } .lines { display: block; }
  .from div, .to div { height: var(--rh); line-height: var(--rh); padding: 0 .4em; white-space: nowrap; display: flex; gap: .4em; }
  .special { font-style: italic; }
  .from div { cursor: pointer; color: var(--query); justify-content: flex-end; } .to div { color: var(--null); }
  .aligned .from div { justify-content: flex-start; }
  .from bdi, .to bdi { overflow: hidden; text-overflow: ellipsis; }
  .from [aria-selected=true] { font-weight: 700; background: color-mix(in srgb, var(--query) 14%, transparent); }
  .from :focus-visible { outline-offset: -2px; }
  .to .on { color: var(--key); font-weight: 600; } .to .at { background: color-mix(in srgb, var(--key) 16%, transparent); color: var(--ink); }
  .to .weight { font-weight: 400; font-variant-numeric: tabular-nums; color: var(--ink); }
  .readout { margin: .3em 0; min-height: 2.9em; font-variant-numeric: tabular-nums; }
  .cell { border-bottom: 2px solid var(--key); margin-right: .8em; }
  .scale { display: flex; flex-wrap: wrap; gap: .4em 2em; font-size: .9em; margin: .2em 0 .5em; }
  .bar { display: flex; gap: .8em; max-width: 100%; } .nan { color: var(--null); }
  .ramp { position: relative; width: 15em; height: .8em; margin: .25em .5em 1.3em; outline: 1px solid color-mix(in srgb, var(--null) 50%, transparent); }
  .ramp span { position: absolute; top: 1em; translate: -50%; line-height: 1.2; color: var(--ink); }
  summary { cursor: pointer; color: var(--null); width: fit-content; padding: 3px 0; }
  .scroll { max-height: 16em; overflow: auto; } caption { text-align: left; }
  table { border-collapse: collapse; font-variant-numeric: tabular-nums; } th, td { text-align: left; padding: .1em .9em .1em 0; font-weight: 400; border: 0; }
  thead th { color: var(--null); }
  @media print { .more, .numbers, summary { display: none; } .list { overflow: visible; } }`;
if (!customElements.get("attention-explorer")) customElements.define("attention-explorer", AttentionExplorer);
