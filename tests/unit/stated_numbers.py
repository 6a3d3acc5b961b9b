"""Numbers that a text states, and where they stand: in the ledger, in a chapter."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterable
from pathlib import Path

from utils import claims

ROOT = Path(__file__).resolve().parents[2]


def numbers(text: str) -> set[str]:
    """Numbers of a text as they are written, without separators; small whole numbers and indices do not count."""
    text = re.sub(r"10\^\{[^}]*\}|\d+e-\d+|[A-Za-zΣ]_\{?\w+\}?", " ", text)
    found = {number.replace(",", "").rstrip(".") for number in re.findall(r"\d[\d,.]*", text)}
    return {number for number in found if not number.isdigit() or int(number) > 12}


def of_claims(ids: Iterable[str]) -> set[str]:
    """Numbers that the ledger states on these claims, with their sources, without those that are unconfirmed."""
    ledger, lines = claims.load(), []
    for insight in ledger["insights"]:
        for claim in insight["claims"]:
            if claim["id"] in set(ids):
                lines += [claim["note"], claim["correction"]]
                lines += [source["where"] for source in claim.get("sources", [])]
                lines += [f"{n['what']} {n['value']}" for n in claim.get("numbers", []) if not n.get("unconfirmed")]
                lines += [ledger["sources"][source["key"]]["label"] for source in claim.get("sources", [])]
    return numbers(" ".join(map(str, lines)))


@functools.cache
def of_chapter(chapter: str | None) -> frozenset[str]:
    """Numbers in the text and the outputs of a chapter, such as ``01-asymmetry``; none for None."""
    if chapter is None:
        return frozenset()
    notebook = json.loads((ROOT / "chapters" / f"{chapter}.ipynb").read_text("utf8"))
    texts = ["".join(cell["source"]) for cell in notebook["cells"]]
    for cell in notebook["cells"]:
        for output in cell.get("outputs", []):
            texts += ["".join(output.get("text", "")), "".join(output.get("data", {}).get("text/plain", ""))]
    return frozenset(numbers("\n".join(texts)))


def chapter_of(insight: int) -> str | None:
    """The chapter on an insight, None while it does not exist."""
    found = sorted((ROOT / "chapters").glob(f"{insight:02d}-*.ipynb"))
    return found[0].stem if found else None
