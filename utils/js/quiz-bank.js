// <quiz-bank>: many questions, one at a time, by insight; feedback on every option, a score, what to look at again.
// data: { title, hint, groups: [{ name, insights }], insights: [{ number, title }],
//         questions: [{ insight, question, several, place, options: [{ text, correct, feedback }] }] }
class QuizBank extends BookElement {
  build() {
    const { data } = this;
    this.cards = data.questions.map((question) => ({ question, first: null, right: false }));
    const count = (wanted) => data.questions.filter((q) => wanted.includes(q.insight)).length;
    this.choices = [{ name: "all insights", wanted: data.insights.map((i) => i.number) },
      ...data.groups.map((g) => ({ name: g.name, wanted: g.insights })),
      ...data.insights.map((i) => ({ name: `${i.number} · ${i.title}`, wanted: [i.number] }))];
    this.select = el("select", { onchange: () => { this.place = 0; this.choose(); this.turn(0, false); } },
      ...this.choices.map((c, i) => el("option", { value: i, text: `${c.name} (${count(c.wanted)})` })));
    this.where = el("p", { class: "muted where" });
    this.holder = el("div", { class: "holder" });
    this.status = el("p", { class: "hidden", role: "status" });
    this.score = el("p", { class: "score" });
    this.back = el("button", { type: "button", text: "← Previous", onclick: () => this.turn(-1) });
    this.next = el("button", { type: "button", text: "Next →", onclick: () => this.turn(1) });
    this.box.append(...data.title ? [el("p", { class: "title" }, ...rich(data.title))] : [], el("p", { class: "hint", text: data.hint }),
      el("div", { class: "options controls" }, el("label", {}, el("span", { class: "muted", text: "questions on " }), this.select)),
      this.where, this.holder, el("div", { class: "steps controls" }, this.back, this.next), this.score, this.status);
    this.place = 0;
    this.choose();
    this.turn(0, false);
  }

  choose() {
    const { wanted } = this.choices[+this.select.value];
    this.shown = this.cards.filter((card) => wanted.includes(card.question.insight));
  }

  turn(step, focus = true) {
    this.place = clamp(this.place + step, 0, this.shown.length - 1);
    const card = this.shown[this.place];
    card.form ??= this.form(card);
    this.holder.replaceChildren(card.form);
    this.where.textContent = `Question ${this.place + 1} of ${this.shown.length} · insight ${card.question.insight}`;
    this.status.textContent = "";
    this.back.disabled = this.place === 0;
    this.next.disabled = this.place === this.shown.length - 1;
    this.count();
    if (focus) card.legend.focus();
  }

  form(card) {
    const { question, several, options } = card.question;
    card.button = el("button", { type: "submit", text: "Check", disabled: true });
    card.place = el("p", { class: "muted place", hidden: true }, ...rich(card.question.place));
    card.all = el("button", { type: "button", text: "All feedback", hidden: true, onclick: () => this.reveal(card) });
    card.rows = options.map((option) => {
      const input = el("input", { type: several ? "checkbox" : "radio", name: "choice",
        onchange: () => { card.button.disabled = !card.rows.some((row) => row.input.checked); } });
      const verdict = el("p", { class: "feedback", hidden: true });
      const row = el("div", { class: "option" }, el("label", {}, input, el("span", {}, ...rich(option.text))), verdict);
      return Object.assign(row, { input, verdict, option });
    });
    card.legend = el("legend", { tabindex: -1 }, ...rich(question), ...several ? [" ", el("em", { text: "Several are right." })] : []);
    return el("form", { onsubmit: (event) => { event.preventDefault(); this.check(card); } },
      el("fieldset", {}, card.legend, ...card.rows), el("div", { class: "steps" }, card.button, card.all), card.place);
  }

  tell(row) {
    const { correct, feedback } = row.option;
    row.dataset.verdict = correct ? "right" : "wrong";
    row.verdict.replaceChildren(el("b", { text: correct ? "✓ Right. " : "✗ Not this one. " }), ...rich(feedback));
    row.verdict.hidden = false;
  }

  check(card) {
    const ticked = card.rows.filter((row) => row.input.checked);
    if (!ticked.length) return;
    ticked.forEach((row) => this.tell(row));
    const wrong = ticked.filter((row) => !row.option.correct).length;
    const missing = card.rows.filter((row) => row.option.correct && !row.input.checked).length;
    card.right = !wrong && !missing;
    card.first ??= card.right;
    card.all.hidden = card.place.hidden = false;
    const words = card.right ? "Right." : wrong ? "Not right yet." : "Right so far, and not all of them.";
    this.count(card.right || wrong ? "" : words);
    this.status.textContent = `${words} ${ticked.map((row) => row.verdict.textContent).join(" ")} ${this.score.textContent}`;
  }

  reveal(card) {
    card.first ??= false;
    card.rows.forEach((row) => this.tell(row));
    this.status.textContent = card.rows.map((row) => `${row.option.text} ${row.verdict.textContent}`).join(" ");
    this.count();
  }

  count(words = "") {
    const answered = this.shown.filter((card) => card.first !== null), right = answered.filter((card) => card.first);
    const again = [...new Set(answered.filter((card) => !card.first).map((card) => card.question.insight))].sort((a, b) => a - b);
    const done = answered.length === this.shown.length ? "All answered. " : "";
    this.score.textContent = [words, answered.length && `${done}Right at the first try: ${right.length} of ${answered.length}.`,
      again.length && `Look again at insight ${again.join(", ")}.`].filter(Boolean).join(" ");
  }

  draw() {}
}
QuizBank.style = `
  fieldset { display: block; }
  legend { float: none; font-weight: 600; color: inherit; margin-bottom: .4em; max-width: 46em; }
  legend em { font-weight: 400; }
  select { max-width: 100%; background: var(--back); border: 1px solid var(--null); border-radius: 3px; padding: .2em .3em; min-height: 28px; }
  .controls label { max-width: 100%; }
  .where { margin: .8em 0 .2em; font-variant-numeric: tabular-nums; }
  .option { margin: .1em 0; max-width: 46em; }
  .option label { display: flex; gap: .6em; align-items: baseline; padding: .28em .5em; border-radius: 4px; }
  .option label:hover { background: color-mix(in srgb, var(--query) 9%, transparent); }
  .option input { flex: none; margin: 0; translate: 0 .1em; }
  .feedback { margin: .1em 0 .5em 2em; padding-left: .8em; border-left: 3px solid var(--tone); }
  .feedback b { color: var(--tone); }
  [data-verdict=right] { --tone: var(--value); }
  [data-verdict=wrong] { --tone: var(--negative); }
  .steps { display: flex; flex-wrap: wrap; gap: .5em; margin: .5em 0 0 .4em; }
  button { padding: .25em 1em; min-height: 28px; border: 1px solid currentColor; border-radius: 4px; background: none; cursor: pointer; }
  button:disabled { color: var(--null); cursor: default; }
  button:not(:disabled):hover { background: color-mix(in srgb, var(--query) 9%, transparent); }
  .place { margin: .5em 0 0 .4em; font-size: .93em; }
  .score { margin: .6em 0 0 .4em; min-height: 1.5em; }
  @media print { button, .where { display: none; } }`;
if (!customElements.get("quiz-bank")) customElements.define("quiz-bank", QuizBank);
