// <budget-planner>: bytes of a model by part against a budget, its least time against a limit, and what single changes would do.
// data: { title, hint, colours: {part: colour}, methods: {name: [trained, weight, gradient, optimiser]}, values: {slider: [number]},
//   settings: [{ name, layers, width, heads, …, tokens, batch, method, attention, removed, …, budget, context, limit, … }] }
// The formulas are those of utils/planner; tests/browser/test_budget_planner.py compares them.
const RANK = 8;
const PARTS = { weights: "weights", gradients: "gradients", optimiser: "optimiser states", activations: "activations", kv_cache: "key/value cache", context: "driver and libraries" };

// Sizes after pruning. Whole groups of query heads go with their key/value head.
function pruned(s) {
  const heads = s.heads - s.removed, kv = s.kv_heads - s.removed / (s.heads / s.kv_heads);
  return { ...s, heads, kv_heads: kv, query: heads * s.head_width, key: kv * s.head_width, positions: s.positions ? Math.max(s.positions, s.tokens) : 0 };
}

function parameters(a) {
  let attention = 2 * a.width * (a.query + a.key), ffn = (a.gated ? 3 : 2) * a.width * a.ffn_width, norms = 2 * a.width;
  if (!a.gated) [attention, ffn, norms] = [attention + a.query + 2 * a.key + a.width, ffn + a.ffn_width + a.width, 2 * norms];
  const all = { attention: a.layers * attention, ffn: a.layers * ffn, norms: a.layers * norms + norms / 2, embeddings: (a.vocabulary + a.positions + a.token_types) * a.width,
    pooler: a.pooler ? a.width * (a.width + 1) : 0, output: a.output === "untied" ? a.vocabulary * a.width : 0 };
  return { ...all, total: Object.values(all).reduce((x, y) => x + y) };
}

function trainable(a, trained, counts) {
  if (trained === "adapters") return a.layers * RANK * (2 * a.width + a.query + a.key);
  if (trained === "norms and biases") return counts.norms + (a.gated ? 0 : a.layers * (a.query + 2 * a.key + 2 * a.width + a.ffn_width)) + (a.pooler ? a.width : 0);
  return trained === "everything" ? counts.total : 0;
}

function operations(a, tokens, batch) {
  const entries = tokens * batch;
  return { layers: a.layers * entries * (4 * a.width * (a.query + a.key) + (a.gated ? 6 : 4) * a.width * a.ffn_width), scores: a.layers * entries * 4 * tokens * a.query,
    rest: (a.pooler ? 2 * batch * a.width ** 2 : 0) + (a.output === "none" ? 0 : 2 * entries * a.width * a.vocabulary) };
}

// Kept for the backward pass; masks of dropout take a byte.
function activations(a, eager, bytes, trained, checkpointing) {
  const entries = a.tokens * a.batch, dropout = !a.gated;
  let values = 2 * a.width + a.query + 2 * a.key + (a.gated ? 3 : 1) * a.ffn_width, masks = 2 * a.width;
  if (trained === "everything") values += 2 * a.width + a.query + a.ffn_width;
  else values += (trained === "adapters" ? a.width : 0) + (eager ? 0 : a.query);
  if (eager) [values, masks] = [values + (dropout ? 2 : 1) * a.heads * a.tokens, masks + a.heads * a.tokens];
  const layer = entries * (values * bytes + (dropout ? masks : 0));
  return checkpointing ? a.layers * entries * a.width * bytes + layer : a.layers * layer;
}

// Live at the peak of a pass that keeps nothing.
function transient(a, eager, bytes) {
  const weights = eager ? a.heads * a.tokens : 0;
  return a.tokens * a.batch * bytes * Math.max(a.width + a.query + 2 * a.key + (2 * weights || a.query), 2 * a.width + (a.gated ? 3 : 2) * a.ffn_width + weights,
    a.output === "none" ? 0 : a.width + a.vocabulary);
}

function costs(s, methods) {
  const a = pruned(s), [trained, bytes, gradient, optimiser] = methods[s.method], eager = s.attention === "eager", counts = parameters(a);
  const training = trained !== "nothing", adapted = trainable(a, trained, counts), entries = a.tokens * a.batch;
  const weights = (counts.total + (trained === "adapters" ? adapted : 0)) * bytes, all = operations(a, a.tokens, a.batch), forward = all.layers + all.scores + all.rest;
  const cache = a.kind === "decoder" && !training ? 2 * a.layers * entries * a.key * bytes : 0;
  let live = training ? activations(a, eager, bytes, trained, s.checkpointing) : transient(a, eager, bytes);
  if (training && !eager) live += (s.checkpointing ? 1 : a.layers) * entries * a.heads * 4;
  if (training && a.output !== "none") live += 4 * entries * a.vocabulary;
  const parts = { weights, gradients: adapted * gradient, optimiser: adapted * optimiser, activations: live, kv_cache: cache, context: s.context };
  let work = forward, moved = weights + 2 * (parts.gradients + parts.optimiser);
  if (training) work = 3 * forward - (trained === "everything" ? 0 : forward - all.scores) + (s.checkpointing ? all.layers + all.scores : 0);
  if (s.generate) {
    const one = operations(a, 1, a.batch);
    [work, moved] = [one.layers + one.rest + a.layers * 4 * entries * a.query, weights + cache];
  }
  return { parameters: counts.total, trainable: adapted, ...parts, total: Object.values(parts).reduce((x, y) => x + y), work, moved,
    seconds: Math.max(work / s.flop_per_second, moved / s.bytes_per_second) };
}

// The largest batch that keeps both limits, 0 when one text is too many.
function largest(s, methods) {
  const fits = (batch) => keeps({ ...s, batch }, costs({ ...s, batch }, methods));
  let low = 0, high = 1;
  while (fits(high)) [low, high] = [high, 2 * high];
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    [low, high] = fits(middle) ? [middle, high] : [low, middle];
  }
  return low;
}

const keeps = (s, c) => c.total <= s.budget && (s.limit == null || c.seconds <= s.limit);
const grouped = (n) => Math.floor(n + 0.5).toLocaleString("en");
const megabytes = (v) => `${grouped(v / 1e6)} MB`;
const divisors = (n) => Array.from({ length: n }, (_, i) => i + 1).filter((v) => n % v === 0);

function duration(v) {
  const [size, unit] = v >= 0.9995 ? [v, "s"] : [1e3 * v, "ms"];
  return `${size.toFixed(size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2)} ${unit}`;
}

function amount(value) {
  for (const [size, prefix] of [[1e15, " P"], [1e12, " T"], [1e9, " G"], [1e6, " M"], [1e3, " k"]]) if (value >= 0.9995 * size) {
    const digits = value / size;
    return digits.toFixed(digits >= 99.95 ? 0 : digits >= 9.995 ? 1 : 2) + prefix;
  }
  return `${value.toFixed(0)} `;
}

class BudgetPlanner extends BookElement {
  build() {
    const { data } = this;
    this.state = { ...data.settings[0] };
    this.parts = Object.keys(PARTS);
    const options = (list) => list.map((name, i) => el("option", { value: i, text: name }));
    const open = () => { this.state = { ...data.settings[+this.opened.value] }; this.draw(); };
    this.opened = el("select", { onchange: open }, ...options(data.settings.map(({ name }) => name)));
    this.sliders = {};
    const slide = (key, words, values, text, set) => {
      const output = el("output"), input = el("input", { type: "range", min: 0, step: 1, "aria-label": words, oninput: () => this.change(set ? set(this.sliders[key].list[+input.value]) : { [key]: this.sliders[key].list[+input.value] }) });
      this.sliders[key] = { key, input, output, values, text };
      return el("label", { class: "row" }, el("span", { class: "muted" }, ...rich(words)), input, output);
    };
    const listed = (key) => () => [...new Set([...data.values[key], this.state[key]])].sort((x, y) => x - y);
    const sized = (s) => divisors(s.width).filter((h) => h <= 64);
    const model = [
      slide("layers", "layers L", listed("layers"), grouped),
      slide("width", "width d", listed("width"), grouped, (width) => {
        const heads = sized({ width }).filter((h) => h <= this.state.heads).at(-1), ratio = this.state.ffn_width / this.state.width;
        return { width, ffn_width: Math.round(width * ratio), ...this.split(heads, width / heads) };
      }),
      slide("heads", "heads H", () => [...new Set([...sized(this.state), this.state.heads])].sort((x, y) => x - y), grouped, (heads) => this.split(heads, this.state.width % heads ? this.state.head_width : this.state.width / heads)),
      slide("head_width", "head width d_h", () => [...new Set([8, 16, 32, 48, 64, 96, 128, 192, 256, this.state.head_width])].sort((x, y) => x - y),
        (v) => `${v}${v * this.state.heads === this.state.width ? " = d/H" : ""}`),
      slide("kv_heads", "key/value heads", () => divisors(this.state.heads), grouped, (kv_heads) => ({ kv_heads, removed: 0 })),
      slide("ffn_width", "feed-forward width", () => [...new Set([...[1, 2, 4, 6, 8, 10, 12, 14, 16].map((v) => v * this.state.width / 4), this.state.ffn_width])].sort((x, y) => x - y), grouped),
      slide("vocabulary", "vocabulary V", listed("vocabulary"), grouped),
    ];
    const run = [
      slide("tokens", "tokens n", listed("tokens"), grouped), slide("batch", "texts in a batch", listed("batch"), grouped),
      slide("removed", "heads pruned", () => Array.from({ length: this.state.kv_heads }, (_, i) => i * this.state.heads / this.state.kv_heads),
        (v) => `${v} of ${this.state.heads}, ${Math.round(100 * v / this.state.heads)} %`),
    ];
    const choose = (words, input) => el("label", { class: "row" }, el("span", { class: "muted", text: words }), input);
    this.method = el("select", { onchange: () => this.change({ method: this.method.value }) }, ...["nothing", ""].map((kind) =>
      el("optgroup", { label: kind ? "inference" : "fine-tuning" }, ...Object.keys(data.methods).filter((name) => (data.methods[name][0] === "nothing") === !!kind).map((name) => el("option", { value: name, text: name })))));
    this.attention = el("select", { onchange: () => this.change({ attention: this.attention.value }) }, ...["eager", "flash"].map((name) => el("option", { value: name, text: name })));
    this.kind = el("select", { onchange: () => this.change({ kind: this.kind.value }) }, ...["encoder", "decoder"].map((name) => el("option", { value: name, text: name })));
    this.scored = el("select", { onchange: () => this.change({ output: this.scored.value }) }, ...[["none", "not of every token"], ["tied", "of every token"], ["untied", "of every token, untied"]].map(([value, text]) => el("option", { value, text })));
    this.again = el("input", { type: "checkbox", onchange: () => this.change({ checkpointing: this.again.checked }) });
    this.token = el("input", { type: "checkbox", onchange: () => this.change({ generate: this.token.checked }) });
    this.numbers = {};
    const number = (key, words, scale) => {
      const input = el("input", { type: "number", min: 0, step: "any", "aria-label": words, onchange: () => {
        const value = input.value === "" && key === "limit" ? null : +input.value * scale, least = key === "context" ? 0 : Number.MIN_VALUE;
        this.change(value === null || Number.isFinite(value) && value >= least ? { [key]: value } : {});
      } });
      this.numbers[key] = { input, scale };
      return choose(words, input);
    };
    const limits = [number("budget", "memory, MB", 1e6), number("context", "driver and libraries, MB", 1e6), number("limit", "time limit, ms", 1e-3), number("flop_per_second", "TFLOP/s", 1e12), number("bytes_per_second", "GB/s", 1e9)];
    const group = (name, open, ...rows) => el("details", { open }, el("summary", { text: name }), el("div", { class: "rows" }, ...rows));
    this.bar = el("div", { class: "bar", "aria-hidden": "true" });
    this.line = el("div", { class: "line", "aria-hidden": "true" });
    this.clock = el("div", { class: "clock", "aria-hidden": "true" });
    this.words = el("p", { class: "words" });
    this.legend = el("p", { class: "legend" });
    this.readout = el("p", { class: "readout", "aria-live": "polite" });
    this.facts = el("p", { class: "muted facts" });
    this.table = el("table", {});
    this.box.append(el("p", { class: "title" }, ...rich(data.title)), el("p", { class: "hint", text: data.hint }),
      el("p", { class: "controls open" }, el("label", {}, el("span", { class: "muted", text: "setting " }), this.opened), " ", el("button", { type: "button", text: "start again", onclick: open })),
      el("div", { class: "stack" }, this.bar, this.line), this.legend, this.words, this.clock, this.readout, this.facts,
      el("div", { class: "panes" },
        el("div", { class: "pane controls" }, group("Run and training", true, ...run, choose("method", this.method), choose("attention", this.attention), choose("checkpointing", this.again), choose("time of one more token", this.token)),
          group("Model", false, choose("kind", this.kind), ...model, choose("scores over V", this.scored)), group("Limits and machine", false, ...limits)),
        el("div", { class: "pane" }, el("p", { class: "muted", text: "One change at a time" }), this.table)));
  }

  // Heads and head width; key/value heads stay as many a group as they can.
  split(heads, head_width) {
    const { state } = this, all = state.kv_heads === state.heads;
    return { heads, head_width, kv_heads: all ? heads : divisors(heads).filter((kv) => kv <= state.kv_heads).at(-1), removed: 0 };
  }

  change(part) {
    Object.assign(this.state, part);
    this.state.generate &&= this.generates();
    this.draw();
  }

  generates() { return this.state.kind === "decoder" && this.data.methods[this.state.method][0] === "nothing"; }

  costs(setting) { return { ...costs(setting, this.data.methods), largest: largest(setting, this.data.methods) }; }

  // What else could be done: [words, changed state].
  changes() {
    const s = this.state, training = this.data.methods[s.method][0] !== "nothing", found = [];
    const add = (words, part) => found.push([words, { ...s, ...part }]);
    const half = Math.min(Math.floor(s.kv_heads / 2 + 0.5), s.kv_heads - 1) * s.heads / s.kv_heads;
    if (s.removed) add("no head pruned", { removed: 0 });
    else if (half) add("half of the heads pruned", { removed: half });
    if (!s.removed && s.kv_heads === s.heads) for (const heads of [s.heads / 2, 2 * s.heads])
      if (Number.isInteger(heads) && s.width % heads === 0 && s.head_width === s.width / s.heads) add(`${heads} heads of ${s.width / heads}`, { heads, kv_heads: heads, head_width: s.width / heads });
    if (s.kind === "decoder" && !s.removed && s.kv_heads > 1) add("one key/value head", { kv_heads: 1 });
    add("feed-forward width halved", { ffn_width: Math.max(1, Math.round(s.ffn_width / 2)) });
    add(s.attention === "eager" ? "flash attention" : "eager attention", { attention: s.attention === "eager" ? "flash" : "eager" });
    if (training) add(s.checkpointing ? "no checkpointing" : "checkpointing", { checkpointing: !s.checkpointing });
    if (s.batch > 1) add("half of the batch", { batch: Math.floor(s.batch / 2) });
    for (const name of Object.keys(this.data.methods)) if (name !== s.method && (this.data.methods[name][0] !== "nothing") === training) add(name, { method: name });
    return found;
  }

  draw() {
    if (!this.box.clientWidth) return;
    const s = this.state, c = this.costs(s), over = c.total - s.budget, late = s.limit == null ? -1 : c.seconds - s.limit;
    for (const { key, input, output, values, text } of Object.values(this.sliders)) {
      const list = this.sliders[key].list = values();
      input.max = list.length - 1;
      input.value = list.indexOf(s[key]);
      input.disabled = list.length < 2;
      output.textContent = text(s[key]);
      input.setAttribute("aria-valuetext", text(s[key]));
    }
    for (const [key, { input, scale }] of Object.entries(this.numbers)) if (input.getRootNode().activeElement !== input || +input.value * scale !== s[key])
      input.value = s[key] == null ? "" : +(s[key] / scale).toPrecision(12);
    this.method.value = s.method;
    this.attention.value = s.attention;
    this.kind.value = s.kind;
    this.scored.value = s.output;
    this.again.checked = s.checkpointing;
    this.again.disabled = this.data.methods[s.method][0] === "nothing";
    this.token.checked = s.generate;
    this.token.disabled = !this.generates();
    this.drawBars(s, c);
    const most = this.parts.reduce((best, part) => c[part] > c[best] ? part : best), bound = c.work / s.flop_per_second >= c.moved / s.bytes_per_second;
    const reason = bound ? "computing" : "reading and writing", what = s.generate ? "One more token for each text" : this.data.methods[s.method][0] === "nothing" ? "A pass" : "A training step";
    this.readout.replaceChildren(el("b", { class: over > 0 || late > 0 ? "no" : "yes", text: over > 0 || late > 0 ? "Does not fit. " : "Fits. " }),
      `It needs ${megabytes(c.total)} of ${megabytes(s.budget)}: ${megabytes(Math.abs(over))} ${over > 0 ? "too much" : "to spare"}. The largest part: ${PARTS[most]}, ${megabytes(c[most])}. `,
      `${what} takes at least ${duration(c.seconds)} (${reason})`, s.limit == null ? ". " : `, ${late > 0 ? "over" : "within"} the limit of ${duration(s.limit)}. `,
      c.largest ? `Largest batch within the limits: ${grouped(c.largest)}.` : "Not even one text keeps the limits.");
    const named = this.data.methods[s.method][0] === "nothing" ? "" : `, ${grouped(c.trainable)} trained`;
    this.facts.textContent = `${grouped(c.parameters)} parameters${named} · ${amount(c.work)}FLOP · ${amount(c.moved)}B read or written`;
    const change = (v) => Math.abs(v) < 0.5e6 ? "same" : `${v > 0 ? "+" : "−"}${megabytes(Math.abs(v))}`;
    const slower = (v) => Math.abs(v) < 5e-4 * c.seconds ? "same" : `${v > 0 ? "+" : "−"}${duration(Math.abs(v))}`;
    this.table.replaceChildren(el("thead", {}, el("tr", {}, ...["change", "memory", "time", "fits"].map((text) => el("th", { scope: "col", text })))),
      el("tbody", {}, ...this.changes().map(([words, state]) => {
        const other = costs(state, this.data.methods);
        return el("tr", {}, el("th", { scope: "row" }, el("button", { type: "button", text: words, onclick: () => { this.change(state); this.table.querySelector("button").focus(); } })), el("td", { text: change(other.total - c.total) }),
          el("td", { text: slower(other.seconds - c.seconds) }), el("td", { text: keeps(state, other) ? "yes" : "no" }));
      })));
  }

  drawBars(s, c) {
    const whole = Math.max(c.total, s.budget), shown = this.parts.filter((part) => c[part]);
    this.bar.replaceChildren(...shown.map((part) => el("span", { style: `width:${100 * c[part] / whole}%;background:var(--${this.data.colours[part]})` })));
    this.line.style.left = `${100 * s.budget / whole}%`;
    this.line.replaceChildren(el("span", { class: s.budget / whole > 0.5 ? "before" : "after", text: `budget ${megabytes(s.budget)}` }));
    this.legend.replaceChildren(...shown.flatMap((part) => [el("span", { class: "share" }, el("i", { style: `background:var(--${this.data.colours[part]})` }), ` ${PARTS[part]} `, el("b", { text: megabytes(c[part]) })), " "]));
    this.clock.hidden = this.words.hidden = s.limit == null;
    if (s.limit == null) return;
    const long = Math.max(c.seconds, s.limit);
    this.clock.replaceChildren(el("span", { class: "hand", style: `width:${100 * c.seconds / long}%` }), el("span", { class: "tick", style: `left:${100 * s.limit / long}%` }));
    this.words.textContent = `time at least ${duration(c.seconds)}, limit ${duration(s.limit)}`;
  }
}
BudgetPlanner.style = `
  select, input[type=number] { max-width: 100%; background: var(--back); border: 1px solid var(--null); border-radius: 3px; padding: .2em .3em; min-height: 28px; }
  input[type=number] { width: 7em; }
  input[type=checkbox] { width: 20px; height: 20px; margin: 4px 0; }
  .open { margin: .5em 0 0; }
  .stack { position: relative; margin: 1.9em 0 .3em; }
  .bar { display: flex; height: 2.2em; background: color-mix(in srgb, var(--null) 16%, transparent); }
  .bar span { box-shadow: inset -1px 0 var(--back); }
  .line { position: absolute; top: -.5em; bottom: -.3em; border-left: 2.5px dashed var(--ink); }
  .line span { position: absolute; top: -1.15em; white-space: nowrap; font-size: .9em; }
  .line .before { right: .3em; }
  .line .after { left: .3em; }
  .legend { margin: .5em 0 .3em; }
  .share { display: inline-block; margin-right: 1em; }
  .share i { display: inline-block; width: .8em; height: .8em; }
  .words { margin: .5em 0 .2em; }
  .words[hidden] { display: none; }
  .clock { position: relative; height: .8em; background: color-mix(in srgb, var(--null) 16%, transparent); }
  .clock[hidden] { display: none; }
  .clock .hand { position: absolute; inset: 0 auto 0 0; background: color-mix(in srgb, var(--null) 40%, transparent); }
  .clock .tick { position: absolute; top: -.2em; bottom: -.2em; border-left: 2.5px dashed var(--ink); }
  .readout { margin: .6em 0 .2em; min-height: 4.5em; }
  .yes { color: var(--value); }
  .no { color: var(--key); }
  .facts { margin: 0 0 .4em; }
  .panes { display: flex; flex-wrap: wrap; gap: .6em 2em; margin-top: .4em; }
  .pane { flex: 1 1 19rem; min-width: 0; max-width: 100%; container-type: inline-size; }
  .row { display: grid; grid-template-columns: 9.5em minmax(5em, 1fr) 6.6em; gap: .5em; align-items: center; min-height: 30px; }
  .row select { grid-column: 2 / 4; justify-self: start; }
  .row input[type=range] { width: 100%; max-width: none; min-height: 24px; }
  summary { cursor: pointer; font-weight: 600; min-height: 28px; }
  table { border-collapse: collapse; width: 100%; }
  th, td { text-align: right; padding: .1em 0 .1em .6em; font-weight: 400; border-bottom: 1px solid color-mix(in srgb, var(--null) 30%, transparent); }
  thead th { color: var(--null); }
  th:first-child { text-align: left; padding-left: 0; }
  td { white-space: nowrap; }
  button { background: none; border: 0; padding: 0; text-align: left; min-height: 26px; cursor: pointer; text-decoration: underline dotted; text-underline-offset: .2em; }
  b, td, output { font-variant-numeric: tabular-nums; }
  @container (max-width: 21rem) {
    .row { grid-template-columns: 7em minmax(3em, 1fr) 6.2em; gap: .35em; }
    th, td { padding-left: .4em; }
  }`;
if (!customElements.get("budget-planner")) customElements.define("budget-planner", BudgetPlanner);
