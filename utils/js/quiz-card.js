// <quiz-card>: one question, three to five options, feedback on every option.
// data: { question, options: [{ text, correct, feedback }] }
class QuizCard extends BookElement {
  build() {
    const { question, options } = this.data;
    this.status = el("p", { class: "status", role: "status" });
    this.rows = options.map((option) => {
      const input = el("input", { type: "radio", name: "choice", onchange: () => { button.disabled = false; } });
      const verdict = el("p", { class: "feedback", hidden: true });
      const row = el("div", { class: "option" }, el("label", {}, input, el("span", {}, ...rich(option.text))), verdict);
      return Object.assign(row, { input, verdict, option });
    });
    const button = el("button", { type: "submit", text: "Check", disabled: true });
    this.box.append(el("form", { onsubmit: (event) => { event.preventDefault(); this.check(); } },
      el("fieldset", {}, el("legend", {}, ...rich(question)), ...this.rows), button, this.status));
  }

  check() {
    const chosen = this.rows.find((row) => row.input.checked);
    if (!chosen) return;
    const { correct, feedback } = chosen.option;
    chosen.dataset.verdict = correct ? "right" : "wrong";
    chosen.verdict.replaceChildren(el("b", { text: correct ? "✓ Right. " : "✗ Not this one. " }), ...rich(feedback));
    chosen.verdict.hidden = false;
    this.status.textContent = `${correct ? "Right." : "Not this one."} ${chosen.verdict.textContent.replace(/^.*?\. /, "")}`;
  }

  draw() {}
}
QuizCard.style = `
  fieldset { display: block; }
  legend { float: none; font-weight: 600; color: inherit; margin-bottom: .4em; max-width: 46em; }
  .option { margin: .1em 0; max-width: 46em; }
  .option label { display: flex; gap: .6em; align-items: baseline; padding: .28em .5em; border-radius: 4px; }
  .option label:hover { background: color-mix(in srgb, var(--query) 9%, transparent); }
  input { flex: none; margin: 0; translate: 0 .1em; }
  .feedback { margin: .1em 0 .5em 2em; padding-left: .8em; border-left: 3px solid var(--tone); }
  .feedback b { color: var(--tone); }
  [data-verdict=right] { --tone: var(--value); }
  [data-verdict=wrong] { --tone: var(--negative); }
  button { margin: .4em 0 0 .4em; padding: .25em 1em; border: 1px solid currentColor; border-radius: 4px; background: none; cursor: pointer; }
  button:disabled { color: var(--null); cursor: default; }
  button:not(:disabled):hover { background: color-mix(in srgb, var(--query) 9%, transparent); }
  .status { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }`;
if (!customElements.get("quiz-card")) customElements.define("quiz-card", QuizCard);
