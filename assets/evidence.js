// Filters of the table of claims. Without this script the whole table stands there and the form stays hidden.
// What is chosen is kept in the address (?insight=7&verdict=wrong), so that a view can be shared and Back undoes a step.
(() => {
  const frame = document.querySelector(".claims");
  const form = frame.querySelector("form");
  const status = form.querySelector("[role=status]");
  const names = ["text", "insight", "verdict", "measured"];

  // Formulas are read before they are set: \(W_{Q}\) can be found as W_Q.
  const plain = (text) => text.toLowerCase().normalize("NFKC").replace(/\\[()]|[{}]/g, "").replace(/[−–]/g, "-").replace(/\s+/g, " ");
  const said = new Map([...frame.querySelectorAll("tbody tr, tbody details")].map((part) => [part, plain(part.textContent)]));
  const claims = [...frame.querySelectorAll("tr.claim")];
  const groups = [...frame.querySelectorAll("tbody")];

  const chosen = () => Object.fromEntries(names.map((name) => [name, form.elements[name].value.trim()]));

  function fromAddress() {
    const wanted = new URLSearchParams(location.search);
    for (const name of names) {
      const field = form.elements[name];
      field.value = wanted.get(name) ?? "";
      if (field.selectedIndex === -1) field.value = "";   // a word that is no option
    }
  }

  function toAddress(step) {
    const address = new URL(location.href);
    for (const [name, value] of Object.entries(chosen())) {
      address.searchParams.delete(name);   // always in the same order
      if (value) address.searchParams.append(name, value);
    }
    address.hash = "";
    history[step](null, "", address);
  }

  // The claim (or the insight) that the address names: it is shown even when a filter hides it.
  const named = () => (location.hash && document.getElementById(location.hash.slice(1))?.closest(".claims tr, .claims tbody")) || null;

  function apply(kept = null) {
    const { text, ...facts } = chosen();
    const words = plain(text).split(" ").filter(Boolean);
    const says = (part) => words.every((word) => said.get(part).includes(word));
    const fits = (part) => Object.entries(facts).every(([name, value]) => !value || part.dataset[name] === value);
    let fitting = 0;
    let extra = 0;
    for (const claim of claims) {
      const fit = fits(claim) && says(claim);
      const kin = !fit && kept !== null && kept.contains(claim);
      fitting += fit;
      extra += kin;
      claim.hidden = !fit && !kin;
    }
    let later = 0;
    for (const group of groups) {
      const some = group.querySelector("tr.claim:not([hidden])") !== null;
      const last = group.querySelector("tr.later");
      const alone = !some && last !== null && words.length > 0 && !facts.verdict && !facts.measured
        && (!facts.insight || group.dataset.insight === facts.insight) && says(last);
      group.hidden = !some && !alone;
      later += alone;
    }
    for (const details of frame.querySelectorAll("details")) {
      const found = words.length > 0 && says(details);
      if (found || details.dataset.found) details.open = found;
      details.dataset.found = found ? "yes" : "";
    }
    const more = [
      extra && `and ${extra === 1 ? "the one" : `${extra}`} the address names`,
      later && `and later evidence on ${later} more insight${later > 1 ? "s" : ""}`,
    ].filter(Boolean);
    status.textContent = [`${fitting} of ${claims.length} claims`, ...more].join(", ");
  }

  function reveal() {
    const target = named();
    apply(target);
    if (target) target.scrollIntoView();
  }

  let before = "";
  form.addEventListener("input", (event) => {
    const typing = event.target.name === "text" && before !== "" && event.target.value !== "";
    before = form.elements.text.value;
    toAddress(typing ? "replaceState" : "pushState");   // a word is one step back, not one step a letter
    apply();
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(() => {
    before = "";
    toAddress("pushState");
    apply();
  }));
  const arrive = () => {
    fromAddress();
    before = form.elements.text.value;
    reveal();
  };
  addEventListener("popstate", arrive);   // Back, Forward, and a link to a claim on this page

  form.hidden = false;
  arrive();
})();
