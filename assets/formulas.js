// One colour each for query, key, value and output, in every formula: authors write plain TeX.
// Coloured: Q K V (italic capitals), W and w with the subscripts or superscripts Q K V O, and q k v with a subscript.
(() => {
  const role = { Q: "query", K: "key", V: "value", O: "output" };
  const letter = (node) => (node && node.isKind("mi") && node.getText ? node.getText() : node && node.isKind("mi") ? node.childNodes[0].text : "");
  const strip = (node) => {
    while (node && (node.isKind("TeXAtom") || node.isKind("inferredMrow") || node.isKind("mrow")) && node.childNodes.length === 1) node = node.childNodes[0];
    return node;
  };
  const name = (node) => letter(strip(node));
  const mark = (node, part) => node.attributes.set("class", `ai-${part}`);

  function colour(root) {
    root.walkTree((node) => {
      if (node.isKind("mi")) {
        const text = name(node);
        const upright = node.attributes.getExplicit("mathvariant") === "normal";
        if (!upright && text !== "O" && role[text]) mark(node, role[text]);
      } else if (node.isKind("msub") || node.isKind("msup") || node.isKind("msubsup")) {
        const [base, ...scripts] = node.childNodes.map(name);
        const owner = scripts.find((text) => role[text]);
        if (/^[Ww]$/.test(base) && owner) mark(node, role[owner]);
        else if (/^[qkv]$/.test(base) && !node.isKind("msup")) mark(node, role[base.toUpperCase()]);
      }
    });
  }

  const config = (window.MathJax = window.MathJax || {});
  const startup = (config.startup = config.startup || {});
  startup.ready = () => {
    MathJax.startup.defaultReady();
    for (const input of MathJax.startup.document.inputJax) {
      if (input.name === "TeX") input.postFilters.add(({ data }) => colour(data.root));
    }
  };

  // A formula that is wider than the page scrolls by itself, with the keyboard too.
  const reachable = () => document.querySelectorAll("div.math mjx-container").forEach((formula) => {
    if (formula.scrollWidth > formula.clientWidth) formula.tabIndex = 0;
    else formula.removeAttribute("tabindex");
  });
  startup.pageReady = () => MathJax.startup.defaultPageReady().then(reachable);
  addEventListener("resize", reachable);
})();
