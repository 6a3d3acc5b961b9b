// The drawing half of <attention-explorer>: weights from their codes, the grid of heads, matrices, lines, scales.
// A MAP is one set of weights (two when comparing), a VIEW is a map after words/special have been applied, a PANE is one
// drawn matrix. Rows are queries (from), columns are keys (to).
const MISSING = 255, STEPS = 254, LONG = 28;
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

class AttentionPicture extends BookElement {
  // ---- numbers

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
    const rh = Math.max(24, Math.round(em * 1.55)), top = Math.ceil(Math.min(this.widths[1] + 0.6 * em, 6 * em));
    this.rh = rh;
    let cw, ch, left = 0, matrix;
    const across = this.compare ? 3 : 1, gap = 0.8 * em;
    if (aligned) {
      cw = Math.min(rh, (width - q - k - 7.5 * em) / columns.length);
      ch = rh;
    } else {
      matrix = this.compare || narrow ? Math.floor((width - (across - 1) * gap) / across - 3) : Math.min(0.5 * width, 30 * em);
      left = matrix / columns.length > 0.85 * em + 3 && !this.compare ? Math.min(this.widths[0] + 0.6 * em, 6 * em) : 1.5 * em;
      cw = Math.min((matrix - left) / columns.length, rh * 1.2);
      ch = Math.min(cw, 2 * matrix / rows.length);
    }
    const labelled = cw > 0.8 * em, head = Math.round((labelled ? top : 0) + 1.5 * em);
    this.geometry = { left, top: head, cw, ch, labelled, rowLabels: left > 2 * em, width: left + cw * columns.length, height: head + ch * rows.length };
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
    const items = data.columns.map(({ label, unit }, s) => [label, this.format(unit, this.counted.map((m) => this.statistic(m, s, l, h)))]);
    if (!this.state.special && this.dropped)
      items.push(["dropped here", this.format("%", this.maps.map((_, m) => this.dropped[m * this.layers * this.heads + this.block]))]);
    const group = data.groups?.filter((g) => g === data.groups[h]).length > 1 ? `key/value head ${data.groups[h]}` : null;
    this.card.replaceChildren(el("p", { class: "which" }, el("b", { text: `Layer ${data.layers[l]}, head ${h}` }), " ",
      role ? el("span", { class: "chip", "data-role": this.tone(l, h), text: role }) : ""),
      el("dl", {}, ...[...items, ...group ? [["shares", group]] : []].flatMap(([name, text]) => [el("dt", { text: name }), el("dd", { text })])),
      ...this.profile ? [this.drawProfile(l, h)] : [], el("p", { class: "muted source", text: data.source }),
      el("p", { class: "muted source", text: "A sink is where weight rests; it says nothing about importance.", hidden: role !== "sink" }));
  }

  drawProfile(l, h) {
    const { offsets } = this.data, n = offsets.length, at = (m, i) => this.profile[((m * this.layers + l) * this.heads + h) * n + i];
    const value = (i) => at(this.counted.at(-1), i);
    const words = offsets.map((o, i) => `${offset(o)}: ${(100 * value(i)).toFixed(0)} %`).join(", ");
    return el("div", {}, el("span", { class: "muted", text: `weight by offset of the key${this.counted.length > 1 ? ` (${this.data.names[1]})` : ""}` }),
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
    const title = (text, colour, x, y) => {
      pen.font = `600 ${em * 0.9}px ${font}`;
      pen.fillStyle = colour;
      pen.fillText(text, x, y);
    };
    title(g.labelled || state.column === null ? "to (key) →" : cut(`to: ${columns[state.column].label}`, g.width - g.left), colours.key, g.left, em);
    if (g.left && !g.rowLabels) {
      pen.save();
      pen.translate(em, g.top);
      pen.rotate(-Math.PI / 2);
      pen.textAlign = "right";
      title("← from (query)", colours.query, 0, 0);
      pen.restore();
    }
    if (g.labelled) columns.forEach((item, c) => {
      pen.save();
      pen.font = `${c === state.column ? "bold " : ""}${size}px ${font}`;
      pen.fillStyle = colours.key;
      pen.translate(g.left + (c + 0.5) * g.cw + size * 0.34, g.top - 5);
      pen.rotate(-Math.PI / 2);
      pen.fillText(cut(item.label, g.top - 1.3 * em - 8), 0, 0);
      pen.restore();
    });
    if (g.rowLabels) title("from ↓", colours.query, 0, g.top - 6);
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
}
