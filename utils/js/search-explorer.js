// <search-explorer>: what a search finds with all heads, and what it finds with some of them out.
// data: { title, hint, queries, conditions, texts, own: [text of each query], total, query, condition }
// arrays: order (conditions, queries, k) numbers of texts; before (the same): their places with all heads;
//   cosines (the same); places (conditions, queries) of the right text
class SearchExplorer extends BookElement {
  build() {
    const { data } = this, options = (names) => names.map((name, i) => el("option", { value: i, text: name }));
    const choice = (label, names, chosen) => {
      const list = el("select", { onchange: () => this.draw() }, ...options(names));
      list.value = chosen;
      return [list, el("label", {}, el("span", { class: "muted", text: `${label} ` }), list)];
    };
    for (const [name, array] of Object.entries(data.arrays)) this[name] = unpack(array);
    const [query, first] = choice("query", data.queries, data.query), [condition, second] = choice("heads", data.conditions, data.condition);
    Object.assign(this, { query, condition, readout: el("p", { class: "readout", "aria-live": "polite" }), list: el("ol", {}) });
    this.box.append(el("p", { class: "title" }, ...rich(data.title)), el("p", { class: "hint", text: data.hint }),
      el("div", { class: "options controls" }, first, second), this.readout, this.list);
  }

  draw() {
    const { data } = this, q = +this.query.value, c = +this.condition.value, [, queries, k] = this.order.shape;
    const place = (condition) => this.places[condition * queries + q], from = (c * queries + q) * k;
    this.readout.replaceChildren("The right passage is in place ", el("b", { text: place(c) }), ` of ${data.total}; with all heads in place `,
      el("b", { text: place(0) }), ".");
    this.list.replaceChildren(...Array.from({ length: k }, (_, i) => {
      const text = this.order[from + i], cosine = this.cosines[from + i], own = text === data.own[q];
      return el("li", { class: own ? "own" : null },
        el("span", { class: "bar", "aria-hidden": "true" }, el("span", { style: `width:${clamp(100 * cosine, 0, 100).toFixed(1)}%` })),
        el("span", { class: "muted", text: `${cosine.toFixed(2)}, with all heads ${this.before[from + i]}. ` }),
        own ? el("b", { text: "Right: " }) : "", el("span", { text: data.texts[text] }));
    }));
  }
}
SearchExplorer.style = `
  select { max-width: 100%; background: var(--back); border: 1px solid var(--null); border-radius: 3px; padding: .2em .3em; min-height: 28px; }
  .readout { margin: .6em 0 .3em; font-variant-numeric: tabular-nums; }
  ol { margin: 0; padding-left: 1.6em; }
  li { margin: .3em 0; padding: .15em .4em; }
  .own { outline: 2px solid var(--query); border-radius: 3px; }
  .bar { display: inline-block; width: 5em; height: .7em; margin-right: .5em; outline: 1px solid color-mix(in srgb, var(--null) 45%, transparent); }
  .bar span { display: block; height: 100%; background: var(--query); }`;
if (!customElements.get("search-explorer")) customElements.define("search-explorer", SearchExplorer);
