"""What axe finds on an open page. Rules about colours look once at each kind of text, also across pages."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import axe_playwright_python

AXE = Path(axe_playwright_python.__file__).parent / "axe.min.js"

# What only the colours of a theme decide; all other rules of axe give the same answer in the light and in the dark.
COLOUR_RULES = ["color-contrast", "link-in-text-block"]
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
RUN = """async ([context, runOnly, off]) => {
  const rules = Object.fromEntries(off.map((rule) => [rule, { enabled: false }]));
  const options = { runOnly, rules, resultTypes: ["violations"], preload: false };
  const { violations, incomplete } = await axe.run(context ? { include: context } : document, options);
  return [violations, incomplete.filter((rule) => rule.error).map((rule) => `${rule.id}: ${rule.message}`)];
}"""
# What is written in a colour, on a ground, in a size and weight that are not known yet: {kind: element}, with figures.
# Axe needs six seconds for all texts of a page, and says the same of all that look the same.
NEW_TEXTS = """(known) => {
  const kinds = new Map(), grounds = new Map();
  const above = (node) => node.assignedSlot ?? node.parentElement ?? node.getRootNode().host;
  const ground = (node) => {
    if (!node) return "";
    if (!grounds.has(node)) {
      const { backgroundColor, backgroundImage, opacity } = getComputedStyle(node);
      const opaque = /^rgb\\(/.test(backgroundColor) && backgroundImage === "none" && opacity === "1";
      grounds.set(node, `${backgroundColor} ${backgroundImage} ${opacity} ${opaque ? "" : ground(above(node))}`);
    }
    return grounds.get(node);
  };
  const length = (node) => [...node.childNodes].filter((child) => child.nodeType === 3)
    .reduce((sum, child) => sum + child.data.trim().length, 0) || Number(node.matches("input, select, textarea"));
  const look = (root) => root.querySelectorAll("*").forEach((node) => {
    if (node.shadowRoot) look(node.shadowRoot);
    if (!length(node) || !node.checkVisibility()) return;
    const { color, fontSize, fontWeight } = getComputedStyle(node);
    const beside = node.matches("a") ? getComputedStyle(above(node)).color : "";
    const kind = [color, beside, fontSize, fontWeight, ground(node)].join();
    if (!kinds.has(kind) || length(kinds.get(kind)) < length(node)) kinds.set(kind, node);  // axe skips single letters
  });
  look(document);
  known.forEach((kind) => kinds.delete(kind));
  return Object.fromEntries(kinds);
}"""


def findings(page, known: set[str], *, others: bool = True) -> list[str]:
    """Serious and critical findings, one line each.

    known: kinds of text in which no fault was found; new ones are added. others: whether to apply all rules, or only
    COLOUR_RULES.
    """
    if not page.evaluate("() => 'axe' in window"):
        page.evaluate(AXE.read_text("utf8"))
    found = _run(page, {"type": "tag", "values": TAGS}, without=COLOUR_RULES) if others else []
    new = page.evaluate_handle(NEW_TEXTS, sorted(known))
    if kinds := new.evaluate("Object.keys"):
        faint = _run(page, {"type": "rule", "values": COLOUR_RULES}, new.evaluate_handle("Object.values"))
        known.update([] if faint else kinds)
        found += faint
    return found


def _run(page, rules: dict, context=None, without: Iterable[str] = ()) -> list[str]:
    violations, stopped = page.evaluate(RUN, [context, rules, list(without)])
    assert stopped == [], f"rules of axe that stopped with an error and looked at nothing: {stopped}"
    return [
        f"{violation['impact']} {violation['id']}: {violation['help']} in {node['html'][:120]}"
        for violation in violations
        if violation["impact"] in ("serious", "critical")
        for node in violation["nodes"][:3]
    ]
