"""The ledger of claims (data/claims.yaml) as cards and as recorded verdicts.

``card`` shows what the course note says and what the sources say. ``record`` puts what a notebook measured into the
notebook itself: an output with its own MIME type beside the readable one, collected when the site is built.
"""

from __future__ import annotations

import copy
import functools
import math
import re
from dataclasses import dataclass
from html import escape
from pathlib import Path

import yaml

LEDGER = Path(__file__).parent.parent / "data" / "claims.yaml"
RECORD_TYPE = "application/vnd.attention-insights.record+json"
MEASURED = ("holds", "holds with conditions", "does not hold")
SYMBOL = re.compile(r"(?<!\w)([A-Za-zΣ])_([A-Za-z]{1,3})(ᵀ?)(?!\w)")  # W_Q, d_h, M_sym: one letter with an index
ROLES = {"Q": "query", "K": "key", "V": "value", "O": "output"}
DIGITS = 6  # a recorded number may have this many significant digits: more would differ between machines

_STYLE = """<style>
.ai-card,.ai-record{border-left:4px solid currentColor;padding:.1em 0 .1em 1.1em;margin:.6em 0;line-height:1.5}
.ai-card{max-width:60em}.ai-card>ul{list-style:none;padding:0;margin:.6em 0 0}
.ai-card>ul>li{display:flex;flex-wrap:wrap;gap:0 1.6em;margin:0;padding:.7em 0;border-top:1px solid #8886}
.ai-card li{max-width:none}
.ai-card li>div{flex:3 1 19em}.ai-card li>div:first-child{flex:2 1 12em}
.ai-card details{font-size:.9em}.ai-card details ul{margin:.3em 0;padding-left:1.2em}.ai-card summary{padding:.2em 0}
.ai-card p,.ai-record p{margin:0 0 .3em;text-align:left;max-width:none}.ai-card small,.ai-record small{opacity:.85}
</style>"""


@dataclass(frozen=True)
class Display:
    """What Jupyter shows: HTML, the same as plain text, and for records the data under their own MIME type."""

    html: str
    text: str
    data: dict | None = None

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict:
        bundle = {"text/html": self.html, "text/plain": self.text}
        return bundle | {RECORD_TYPE: self.data} if self.data else bundle

    def __repr__(self) -> str:
        return self.text


@functools.cache
def _ledger() -> dict:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return yaml.load(LEDGER.read_text("utf8"), Loader=loader)


def load() -> dict:
    """The whole ledger: ``verdicts``, ``readings``, ``sources``, ``insights`` (fields: head of data/claims.yaml)."""
    return copy.deepcopy(_ledger())


def _insight(insight: int | str) -> dict:
    known = {str(entry["id"]): entry for entry in _ledger()["insights"]}
    if isinstance(insight, bool) or str(insight) not in known:
        raise ValueError(f"insight {insight!r} is not in the ledger: choose one of {', '.join(known)}")
    return known[str(insight)]


def _claim(claim_id: str) -> dict:
    known = {claim["id"]: claim for entry in _ledger()["insights"] for claim in entry["claims"]}
    if claim_id not in known:
        raise ValueError(f"claim {claim_id!r} is not in the ledger: ids run from {next(iter(known))} to {[*known][-1]}")
    return known[claim_id]


def url(source: dict) -> str:
    """Address of a source: ``arXiv:…`` and ``doi:…`` become web addresses, others stay; empty when there is none."""
    link = source.get("link", "")
    for prefix, site in (("arXiv:", "https://arxiv.org/abs/"), ("doi:", "https://doi.org/")):
        if link.startswith(prefix):
            return site + link.removeprefix(prefix)
    return link


def verdict(claim: dict) -> str:
    """Verdict with its qualifier, for example ``wrong as a proof`` or ``correct in general``."""
    return " – ".join(filter(None, (claim["verdict"], claim.get("qualifier"))))


def basis(claim: dict) -> list[tuple[str, str]]:
    """(source key or "", sentence) for everything a verdict rests on, with the place and how it was read."""
    sources = _ledger()["sources"]
    found = [("", claim["derived"])] if "derived" in claim else []
    for source in claim.get("sources", []):
        found.append((source["key"], f"{sources[source['key']]['label']}, {source['where']} (read: {source['read']})"))
    return found


def reported(claim: dict) -> list[tuple[str, str]]:
    """(source key, sentence) for every number a source reports; unconfirmed ones say so."""
    sources = _ledger()["sources"]
    found = []
    for number in claim.get("numbers", []):
        mark = "UNCONFIRMED, " if number.get("unconfirmed") else ""
        where = f"{sources[number['source']]['label']}, {number['where']}; {mark}read: {number['read']}"
        found.append((number["source"], f"{number['what']}: {number['value']} ({where})"))
    return found


def anchor(claim_id: str, kind: str) -> str:
    """The id of a claim in a page: ``anchor("C7.1", "measured")`` is ``measured-c7-1``, the output of a record."""
    return f"{kind}-{claim_id.lower().replace('.', '-')}"


def parts(value: float | str | dict, name: str = "") -> dict[str, str]:
    """A recorded value as readers see it: name → text. A dict inside a dict is named by both keys."""
    if not isinstance(value, dict):
        return {name or "measured": str(value)}
    found = {}
    for key, part in value.items():
        found |= parts(part, f"{name}, {key}" if name else key)
    return found


def as_html(text: str) -> str:
    """Plain text as HTML: escaped, with indices set below and the weight matrices in the colours of the book."""

    def symbol(found: re.Match) -> str:
        shown = f"<i>{found[1]}</i><sub>{found[2]}</sub>{'<sup>⊤</sup>' if found[3] else ''}"
        role = ROLES.get(found[2]) if found[1] == "W" else None
        return f'<span class="ai-{role}">{shown}</span>' if role else shown

    return SYMBOL.sub(symbol, escape(text))


def _link(key: str, sentence: str) -> str:
    """The sentence as HTML, with the label of its source linked."""
    text = as_html(sentence).replace("UNCONFIRMED", "<strong>UNCONFIRMED</strong>")
    source = _ledger()["sources"].get(key, {})
    if not url(source):
        return text
    label = escape(source["label"])
    return text.replace(label, f'<a href="{escape(url(source))}">{label}</a>', 1)


def _item(claim: dict) -> str:
    """One claim of a card: the note on one side, the verdict and its sources on the other."""
    numbers = "".join(f"<li>{_link(*each)}</li>" for each in reported(claim))
    details = f"<details><summary>Numbers reported</summary><ul>{numbers}</ul></details>" if numbers else ""
    return (
        f"<li><div><p><strong>{claim['id']}</strong> The note: {as_html(claim['note'])}</p></div>"
        f"<div><p><strong>Verdict: {escape(verdict(claim))}.</strong> {as_html(claim['correction'])}</p>"
        f"<p><small>Rests on {'; '.join(_link(*each) for each in basis(claim))}.</small></p>{details}</div></li>"
    )


def card(insight: int | str) -> Display:
    """Claim card of one insight (0 … 12 or ``"3b"``): what the note says, the verdict, what the sources say.

    Static and deterministic: the same ledger gives the same HTML. Raises ValueError for an unknown insight.
    """
    entry = _insight(insight)
    heading = f"Insight {entry['id']} · {entry['title']}"
    items, lines = [], [heading, entry["insight"], ""]
    for claim in entry["claims"]:
        items.append(_item(claim))
        lines += [f"{claim['id']} The note: {claim['note']}", f"  {verdict(claim)}: {claim['correction']}"]
        lines += [f"  rests on: {sentence}" for _, sentence in basis(claim)]
        lines += [f"  reported: {sentence}" for _, sentence in reported(claim)]
    html = (
        f'<section class="ai-card" aria-label="Claim card, {escape(heading)}">{_STYLE}'
        f"<p><strong>{escape(heading)}</strong></p><p>{as_html(entry['insight'])}</p><ul>{''.join(items)}</ul></section>"
    )
    return Display(html, "\n".join(lines))


def _checked(value: object, name: str = "value") -> float | int | str | dict:
    if isinstance(value, dict) and value:
        return {str(key): _checked(part, f"value[{key!r}]") for key, part in value.items()}
    if isinstance(value, str) and value.strip():
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, float) and math.isfinite(value):
        if float(f"{value:.{DIGITS}g}") != value:
            raise ValueError(f"{name} is {value!r}: round it first, for example round({name}, 3)")
        return value
    raise ValueError(
        f"{name} is {value!r} ({type(value).__name__}): give a rounded finite number, a text, or a dict of them; "
        "convert tensors and arrays with float(…)"
    )


def record(claim_id: str, value: float | str | dict, verdict: str) -> Display:
    """What this notebook measured for one claim of the ledger, as an output.

    claim_id: an id of data/claims.yaml. value: a rounded number, a text, or a dict of them. verdict: ``holds``,
    ``holds with conditions`` or ``does not hold`` (of the note's claim). The evidence page links to the id of its HTML
    (``anchor``). Writes no file. Raises ValueError otherwise.
    """
    claim = _claim(claim_id)
    if verdict not in MEASURED:
        raise ValueError(f"verdict {verdict!r} is not known: use one of {', '.join(MEASURED)}")
    data = {"claim": claim_id, "value": _checked(value), "verdict": verdict}
    shown = "; ".join(f"{name}: {part}" for name, part in parts(data["value"]).items())
    html = (
        f'<div class="ai-record" id="{anchor(claim_id, "measured")}">{_STYLE}'
        f"<p><strong>{claim_id}: {verdict}.</strong> {as_html(claim['note'])}</p>"
        f"<p><small>{escape(shown)}</small></p></div>"
    )
    return Display(html, f"{claim_id}: {verdict}. {claim['note']}\n  {shown}", data)
