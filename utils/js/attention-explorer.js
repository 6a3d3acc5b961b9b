// <attention-explorer>: all heads of a model over one text; choose a head, read its rows.
// data: see utils/explorer.py. arrays: weights and other (uint8: square roots, rows renormalised here), statistics,
// profile, dropped (float32).
// Words used here: a MAP is one set of weights (two when comparing), a VIEW is a map after words/special have been
// applied, a PANE is one drawn matrix. Rows are queries (from), columns are keys (to).
const MISSING = 255, STEPS = 254, LONG = 24;
const number = (w) => !Number.isFinite(w) ? "missing" : w > 0 && w < 0.0005 ? "<0.001" : w.toFixed(3);
const signed = (w) => !Number.isFinite(w) ? "missing" : (w < 0 ? "−" : "+") + Math.abs(w).toFixed(3);
const offset = (v) => `${v > 0 ? "+" : v < 0 ? "−" : ""}${Math.abs(v)}`;
const short = (w) => !Number.isFinite(w) ? "–" : Math.abs(w) >= 0.995 ? (w < 0 ? "−1" : "1") : w.toFixed(2).replace("0.", ".").replace("-", "−");

// Codes to weights whose rows sum to 1; an empty row stays empty, missing stays missing.
function decode(codes) {
  const width = codes.shape.at(-1), weights = new Float32Array(codes.length);
  const table = Float32Array.from({ length: 256 }, (_, c) => c === MISSING ? NaN : (c / STEPS) ** 2);
  for (let start = 0; start < codes.length; start += width) {
    let sum = 0;
    for (let i = start; i < start + width; i++) sum += weights[i] = table[codes[i]];
    if (sum > 0) for (let i = start; i < start + width; i++) weights[i] /= sum;
  }
  return weights;
}

class AttentionExplorer extends BookElement {
  build() {
    const began = performance.now(), { data } = this, { arrays } = data;
    this.maps = [arrays.weights, arrays.other].filter(Boolean).map((item) => decode(unpack(item)));
    [this.layers, this.heads, this.queries, this.keys] = arrays.weights.shape;
    for (const name of ["statistics", "profile", "dropped"]) this[name] = arrays[name] && unpack(arrays[name]);
    delete data.arrays;
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

  // One map (layers, heads, queries, keys) → (layers, heads, rows, columns): without special tokens rows are divided by
  // what is left of them; a word's row is the mean of its pieces' rows, its column the sum of their columns.
  view(map) {
    const { rows, columns, keys } = this, R = rows.length, C = columns.length;
    if (R === this.queries && C === keys) return map;
    const view = new Float32Array(this.layers * this.heads * R * C), line = new Float32Array(C);
    for (let block = 0; block < this.layers * this.heads; block++) for (let r = 0; r < R; r++) {
      const out = (block * R + r) * C;
      for (const piece of rows[r].pieces) {
        const start = (block * this.queries + piece) * keys;
        let sum = 0;
        for (let c = 0; c < C; c++) {
          line[c] = 0;
          for (const key of columns[c].pieces) line[c] += map[start + key];
          sum += line[c];
        }
        const scale = (this.state.special || !(sum > 0) ? 1 : 1 / sum) / rows[r].pieces.length;
        for (let c = 0; c < C; c++) view[out + c] += line[c] * scale;
      }
    }
    return view;
  }

  // The value of a cell: of a map (0, 1) or their difference (2).
  value(show, block, r, c) {
    const at = (block * this.rows.length + r) * this.columns.length + c;
    return show < 2 ? this.views[show][at] : this.views[1][at] - this.views[0][at];
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
      el("div", { class: "top" }, el("div", { class: "all", style: `--heads:${this.heads}` }, el("p", { class: "muted axes", "aria-hidden": "true", text: "layer ↓  head →" }),
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

  // ---- drawing

  recolour(paper) {
    if (!super.recolour(paper)) return false;
    const { back, amount, negative, positive } = this.colours;
    this.ramps = { amount: ramp(back, amount), positive: ramp(back, positive), negative: ramp(back, negative) };
    const [r, g, b] = rgb(this.colours.null);
    this.missing = (255 << 24 | b << 16 | g << 8 | r) >>> 0;
    this.drawScale();
    return true;
  }
  // Colour of a value as a pixel; the scale is the square root of the amount, as the scale bar says.
  pixel(w, show) {
    if (!(Math.abs(w) <= 2)) return this.missing;
    const { amount, positive, negative } = this.ramps;
    return (show < 2 ? amount : w < 0 ? negative : positive)[Math.min(255, Math.round(255 * Math.sqrt(Math.abs(w))))];
  }

  drawScale() {
    if (!this.scale) return;
    const css = (ramps, from) => Array.from({ length: 17 }, (_, i) => {
      const p = ramps[Math.round((from + (1 - 2 * from) * i / 16) * 255)];
      return `rgb(${p & 255} ${p >> 8 & 255} ${p >> 16 & 255})`;
    }).join(",");
    const bar = (label, gradient, ticks) => el("div", { class: "bar" }, el("span", { class: "muted", text: label }),
      el("div", { class: "ramp", style: `background:linear-gradient(90deg,${gradient})` }, ...ticks.map(([text, at]) =>
        el("span", { text, style: `left:${(100 * at).toFixed(1)}%` }))));
    const { amount, negative, positive } = this.ramps, root = (v) => [String(v), Math.sqrt(v)];
    const bars = [bar("attention weight", css(amount, 0), [0, 0.05, 0.25, 0.5, 1].map(root))];
    if (this.compare) bars.push(bar("change", `${css(negative, 1)},${css(positive, 0)}`,
      [-1, -0.25, 0, 0.25, 1].map((v) => [String(v).replace("-", "−"), 0.5 + Math.sign(v) * Math.sqrt(Math.abs(v)) / 2])));
    bars.push(el("span", { class: "muted nan", text: "grey: missing", hidden: !this.data.missing }));
    this.scale.replaceChildren(...bars);
  }

  sized(canvas, width, height) {
    const ratio = Math.max(1, window.devicePixelRatio || 1), [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
    if (canvas.width !== w || canvas.height !== h) Object.assign(canvas, { width: w, height: h });
    Object.assign(canvas.style, { width: `${width}px`, height: `${height}px` });
    const pen = canvas.getContext("2d");
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    return pen;
  }

  draw() {
    const width = this.box.clientWidth;
    if (!width || !this.views) return;
    const began = performance.now();
    this.em = parseFloat(getComputedStyle(this.box).fontSize);
    this.layout(width - 4);
    this.drawGrid();
    this.drawCard();
    this.drawWords();
    this.drawPanes();
    this.drawLines();
    this.read();
    this.fillTable();
    if (this.drawTime) return;
    this.drawTime = performance.now() - began;
    this.reveal();
  }

  layout(width) {
    const { rows, columns, em } = this, long = Math.max(rows.length, columns.length) > LONG;
    const narrow = width < 34 * em, aligned = !long && !narrow && !this.compare;
    const pen = this.lines.getContext("2d");
    pen.font = `bold ${em}px ${getComputedStyle(this.box).fontFamily}`;
    this.widths ??= [rows, columns].map((items) => Math.max(...items.map((item) => pen.measureText(item.label).width)));
    const [q, k] = this.widths.map((w, side) => Math.ceil(clamp(w + 0.9 * em, 3 * em, 8.5 * em) + (side ? 2.6 * em : 0)));
    const rh = Math.round(em * (aligned && rows.length > 16 ? 1.35 : 1.55)), top = Math.ceil(Math.min(this.widths[1] + 0.6 * em, 6 * em));
    this.rh = rh;
    let cw, ch, left = 0, matrix;
    const across = this.compare ? 3 : 1, gap = 0.8 * em;
    if (aligned) {
      cw = Math.min(rh, (width - q - k - 7.5 * em) / columns.length);
      ch = rh;
    } else {
      matrix = this.compare || narrow ? Math.floor((width - (across - 1) * gap) / across - 3) : Math.min(0.5 * width, 30 * em);
      left = matrix / columns.length > 0.85 * em + 3 && !this.compare ? Math.min(this.widths[0] + 0.6 * em, 6 * em) : 0;
      cw = Math.min((matrix - left) / columns.length, rh * 1.2);
      ch = Math.min(cw, 2 * matrix / rows.length);
    }
    const labelled = cw > 0.72 * em, head = labelled ? top : Math.round(1.5 * em);
    this.geometry = { left, top: head, cw, ch, labelled, rowLabels: left > 0, width: left + cw * columns.length, height: head + ch * rows.length };
    const tall = Math.max(rows.length, columns.length) * rh;
    this.listHeight = !long ? tall : Math.min(tall, narrow || this.compare ? 24 * em : Math.max(this.geometry.height - 1.6 * em, 20 * em));
    this.main.className = `main ${aligned ? "aligned" : narrow || this.compare ? "stacked" : "split"}`;
    this.main.style.setProperty("--rh", `${rh}px`);
    this.main.style.setProperty("--head", aligned ? `${head}px` : "auto");
    this.list.style.height = `${this.listHeight}px`;
    this.list.style.gridTemplateColumns = `${q}px minmax(4em, ${narrow ? 1 : 20}fr) ${k}px`;
    this.from.parentNode.previousSibling.style.gridTemplateColumns = this.list.style.gridTemplateColumns;
    this.narrow = narrow;
  }

  // All heads in ONE canvas: a thumbnail keeps the largest weight under each of its pixels.
  drawGrid() {
    const { state, cells, rows, columns } = this, box = this.grid.getBoundingClientRect();
    const key = [box.width, this.colourKey, state.show, state.words, state.special, devicePixelRatio].join();
    cells.flat().forEach((cell, i) => {
      const chosen = i === this.block;
      cell.tabIndex = chosen ? 0 : -1;
      cell.setAttribute("aria-selected", chosen);
    });
    if (key === this.gridKey) return;
    this.gridKey = key;
    const pen = this.sized(this.thumbs, box.width, box.height), ratio = this.thumbs.width / box.width;
    const R = rows.length, C = columns.length, first = cells[0][0].getBoundingClientRect();
    const [w, h] = [Math.round((first.width - 2) * ratio), Math.round((first.height - 2) * ratio)];
    if (!(w > 0 && h > 0)) return void (this.gridKey = null);
    const image = pen.createImageData(w, h), pixels = new Uint32Array(image.data.buffer), best = new Float32Array(w * h);
    const span = (n, m) => Array.from({ length: Math.max(n, m) }, (_, i) => n >= m ? [i, Math.floor(i * m / n)] : [Math.floor(i * n / m), i]);
    const [ys, xs] = [span(R, h), span(C, w)];
    cells.flat().forEach((cell, block) => {
      best.fill(0);
      for (const [r, y] of ys) for (const [c, x] of xs) {
        const v = this.value(state.show, block, r, c), at = y * w + x;
        if (!(Math.abs(v) <= Math.abs(best[at]))) best[at] = v;
      }
      for (let i = 0; i < best.length; i++) pixels[i] = this.pixel(best[i], state.show);
      const at = cell.getBoundingClientRect();
      pen.putImageData(image, Math.round((at.left - box.left + 1) * ratio), Math.round((at.top - box.top + 1) * ratio));
    });
  }

  drawCard() {
    const { data, state: { layer: l, head: h } } = this, role = this.role(l, h);
    const key = `${this.block} ${this.state.special}`;
    if (key === this.cardKey) return;
    this.cardKey = key;
    const items = data.columns.map(({ label, unit }, s) => [label, this.format(unit, this.maps.map((_, m) => this.statistic(m, s, l, h)))]);
    if (!this.state.special && this.dropped)
      items.push(["dropped here", this.format("%", this.maps.map((_, m) => this.dropped[m * this.layers * this.heads + this.block]))]);
    const group = data.groups?.filter((g) => g === data.groups[h]).length > 1 ? `key/value head ${data.groups[h]}` : null;
    this.card.replaceChildren(el("p", { class: "which" }, el("b", { text: `Layer ${data.layers[l]}, head ${h}` }), " ",
      role ? el("span", { class: "chip", "data-role": this.tone(l, h), text: role }) : ""),
      el("dl", {}, ...[...items, ...group ? [["shares", group]] : []].flatMap(([name, text]) => [el("dt", { text: name }), el("dd", { text })])),
      ...this.profile ? [this.drawProfile(l, h)] : [], el("p", { class: "muted source", text: data.source }));
  }

  drawProfile(l, h) {
    const { offsets } = this.data, n = offsets.length, at = (m, i) => this.profile[((m * this.layers + l) * this.heads + h) * n + i];
    const value = (i) => at(this.compare ? 1 : 0, i);
    const words = offsets.map((o, i) => `${offset(o)}: ${(100 * value(i)).toFixed(0)} %`).join(", ");
    return el("div", {}, el("span", { class: "muted", text: "weight by offset of the key" }),
      el("div", { class: "profile", role: "img", "aria-label": `weight by offset of the key, ${words}` }, ...offsets.map((o, i) =>
        el("span", { title: `${(100 * value(i)).toFixed(0)} % of the weight at offset ${offset(o)}` },
          el("b", {}, el("i", { style: `height:${(100 * clamp(value(i) || 0, 0, 1)).toFixed(0)}%` })), el("small", { text: offset(o) })))));
  }

  drawWords() {
    const { row, block, columns, state } = this;
    [...this.from.children].forEach((node, r) => {
      node.tabIndex = r === row ? 0 : -1;
      node.setAttribute("aria-selected", r === row);
    });
    [...this.to.children].forEach((node, c) => {
      const w = this.value(state.show, block, row, c), on = Math.abs(w) >= Math.max(state.threshold, 0.005);
      node.classList.toggle("on", on);
      node.classList.toggle("at", c === state.column);
      node.lastChild.textContent = on || c === state.column ? short(w) : "";
    });
  }

  drawPanes() {
    const { geometry: g, rows, columns, row, colours, em, state, block } = this, R = rows.length, C = columns.length;
    const image = new ImageData(C, R), pixels = new Uint32Array(image.data.buffer), small = new OffscreenCanvas(C, R);
    for (const pane of this.panes) {
      const pen = this.sized(pane.canvas, Math.ceil(g.width + 2), Math.ceil(g.height + 2));
      pane.geometry = g;
      for (let r = 0, i = 0; r < R; r++) for (let c = 0; c < C; c++) pixels[i++] = this.pixel(this.value(pane.show, block, r, c), pane.show);
      small.getContext("2d").putImageData(image, 0, 0);
      pen.imageSmoothingEnabled = false;
      pen.drawImage(small, g.left, g.top, C * g.cw, R * g.ch);
      pen.strokeStyle = colours.null;
      pen.globalAlpha = 0.5;
      pen.lineWidth = 1;
      pen.strokeRect(g.left + 0.5, g.top + 0.5, C * g.cw - 1, R * g.ch - 1);
      pen.globalAlpha = 1;
      this.mark(pen, g, row, state.column);
      this.names(pen, g, row);
    }
  }

  // The row that is read, the column pointed at, and which rows the list of words shows.
  mark(pen, g, row, column) {
    const { colours, rows, columns } = this;
    pen.lineWidth = 2;
    pen.strokeStyle = colours.query;
    pen.strokeRect(g.left, g.top + row * g.ch, columns.length * g.cw, Math.max(g.ch, 3));
    if (column !== null) {
      pen.strokeStyle = colours.key;
      pen.strokeRect(g.left + column * g.cw, g.top, Math.max(g.cw, 3), rows.length * g.ch);
    }
    if (this.list.scrollHeight > this.list.clientHeight + 4) {
      const part = (v) => g.top + Math.min(v / this.rh, rows.length) * g.ch;
      pen.fillStyle = colours.query;
      pen.fillRect(g.left + columns.length * g.cw - 1, part(this.list.scrollTop), 3, part(this.list.scrollTop + this.list.clientHeight) - part(this.list.scrollTop));
    }
  }

  names(pen, g, row) {
    const { rows, columns, colours, em, state } = this, font = getComputedStyle(this.box).fontFamily;
    const size = Math.min(em * 0.92, g.cw * 0.95);
    const cut = (label, room) => {
      if (pen.measureText(label).width <= room) return label;
      const letters = [...label];
      while (letters.length > 1 && pen.measureText(`${letters.join("")}…`).width > room) letters.pop();
      return `${letters.join("")}…`;
    };
    if (g.labelled) columns.forEach((item, c) => {
      pen.save();
      pen.font = `${c === state.column ? "bold " : ""}${size}px ${font}`;
      pen.fillStyle = colours.key;
      pen.translate(g.left + (c + 0.5) * g.cw + size * 0.34, g.top - 5);
      pen.rotate(-Math.PI / 2);
      pen.fillText(cut(item.label, g.top - 8), 0, 0);
      pen.restore();
    });
    else {
      pen.font = `${em * 0.9}px ${font}`;
      pen.fillStyle = colours.key;
      pen.fillText(cut(state.column === null ? "to (key) →" : columns[state.column].label, g.width - g.left), g.left, g.top - 6);
    }
    if (g.rowLabels) rows.forEach((item, r) => {
      pen.font = `${r === row ? "bold " : ""}${Math.min(size, g.ch)}px ${font}`;
      pen.fillStyle = colours.query;
      pen.textAlign = "right";
      pen.fillText(cut(item.label, g.left - 8), g.left - 5, g.top + (r + 0.5) * g.ch + size * 0.34);
      pen.textAlign = "left";
    });
  }

  // Lines from each query to its keys, only those in sight; the row that is read stands out.
  drawLines() {
    const { rows, columns, row, rh, block, colours, state, em } = this, { scrollTop, clientHeight } = this.list;
    const width = this.lines.parentNode.clientWidth, height = clientHeight, pen = this.sized(this.lines, width, height);
    const y = (i) => (i + 0.5) * rh - scrollTop, change = state.show === 2;
    const gradient = pen.createLinearGradient(0, 0, width, 0);
    gradient.addColorStop(0, colours.query);
    gradient.addColorStop(1, colours.key);
    pen.lineCap = "round";
    const draw = (r, c, w, strong) => {
      const amount = Math.sqrt(Math.abs(w));
      pen.globalAlpha = strong ? 0.15 + 0.85 * amount : 0.22 * amount;
      pen.strokeStyle = change ? (w < 0 ? colours.negative : colours.positive) : gradient;
      pen.lineWidth = strong ? 1 + 3 * amount : 1 + amount;
      pen.beginPath();
      pen.moveTo(2, y(r));
      pen.bezierCurveTo(width * 0.45, y(r), width * 0.55, y(c), width - 2, y(c));
      pen.stroke();
    };
    const lines = (r, strong) => columns.forEach((_, c) => {
      const w = this.value(state.show, block, r, c);
      if (Math.abs(w) >= Math.max(state.threshold, 0.001)) draw(r, c, w, strong);
    });
    rows.forEach((_, r) => { if (r !== row && y(r) > -rh && y(r) < height + rh) lines(r, false); });
    lines(row, true);
    pen.globalAlpha = 1;
    this.beyond(pen, width, height, y);
  }

  // Where the row's strongest keys are out of sight, their names at the edge.
  beyond(pen, width, height, y) {
    const out = this.top(5).filter(({ c, w }) => Math.abs(w) >= Math.max(this.state.threshold, 0.02) && (y(c) < 0 || y(c) > height));
    pen.font = `${this.em * 0.88}px ${getComputedStyle(this.box).fontFamily}`;
    pen.textAlign = "right";
    for (const [arrow, items] of [["↑", out.filter(({ c }) => y(c) < 0)], ["↓", out.filter(({ c }) => y(c) > height)]])
      items.slice(0, 2).forEach(({ c, w }, i) => {
        const text = `${arrow} ${this.columns[c].label} ${short(w)}`, wide = pen.measureText(text).width;
        const base = arrow === "↑" ? (i + 1) * 1.3 * this.em : height - (i + 0.35) * 1.3 * this.em;
        pen.fillStyle = this.colours.back;
        pen.globalAlpha = 0.88;
        pen.fillRect(width - wide - 6, base - this.em, wide + 6, this.em * 1.3);
        pen.globalAlpha = 1;
        pen.fillStyle = this.colours.key;
        pen.fillText(text, width - 3, base);
      });
  }

  reveal() {
    const middle = (this.row + 0.5) * this.rh, { scrollTop, clientHeight } = this.list;
    if (middle < scrollTop + this.rh || middle > scrollTop + clientHeight - this.rh) this.list.scrollTop = middle - clientHeight / 2;
  }

  top(count) {
    const { block, row, state } = this;
    return this.columns.map((_, c) => ({ c, w: this.value(state.show, block, row, c) })).filter(({ w }) => w !== 0)
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
    this.readout.replaceChildren(...parts, name(), ` (${row + 1} of ${rows.length}) reads `,
      ...list.length ? list.flatMap(({ c }, i) => [i ? " · " : "", item(c)]) : ["nothing"]);
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
  .all { flex: 1 1 22em; max-width: calc(2.2em + var(--heads) * 3.2em); min-width: 0; }
  .axes { font-size: .85em; white-space: pre; } .gridbox { position: relative; }
  .gridbox canvas { position: absolute; inset: 0 auto auto 0; }
  .grid { position: relative; font-size: .85em; }
  .row { display: grid; grid-template-columns: 2.2em repeat(var(--heads), minmax(0, 1fr)); gap: 3px; margin-bottom: 3px; align-items: center; text-align: center; }
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
  dt { color: var(--null); } dd { margin: 0; font-variant-numeric: tabular-nums; }
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
  .to .on { color: var(--key); font-weight: 600; } .to .at { background: color-mix(in srgb, var(--key) 16%, transparent); color: var(--key); }
  .to .weight { font-weight: 400; font-variant-numeric: tabular-nums; color: var(--ink); }
  .readout { margin: .3em 0; min-height: 2.9em; font-variant-numeric: tabular-nums; }
  .cell { border-bottom: 2px solid var(--key); margin-right: .8em; }
  .scale { display: flex; flex-wrap: wrap; gap: .4em 2em; font-size: .9em; margin: .2em 0 .5em; }
  .bar { display: flex; gap: .8em; } .nan { color: var(--null); }
  .ramp { position: relative; width: 15em; height: .8em; margin: .25em .5em 1.3em; outline: 1px solid color-mix(in srgb, var(--null) 50%, transparent); }
  .ramp span { position: absolute; top: 1em; translate: -50%; line-height: 1.2; color: var(--ink); }
  summary { cursor: pointer; color: var(--null); width: fit-content; }
  .scroll { max-height: 16em; overflow: auto; } caption { text-align: left; }
  table { border-collapse: collapse; font-variant-numeric: tabular-nums; } th, td { text-align: left; padding: .1em .9em .1em 0; font-weight: 400; border: 0; }
  thead th { color: var(--null); }
  @media print { .more, .numbers, summary { display: none; } .list { overflow: visible; } }`;
if (!customElements.get("attention-explorer")) customElements.define("attention-explorer", AttentionExplorer);
