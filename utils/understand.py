"""The assessment "Understand": what it asks (data/understand.yaml), how it is shown, and when its goal is reached.

Sentences of a talk, findings with their controls, and for every insight an explanation: points to choose from, what
full marks need, a model answer and typical errors.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import yaml

from utils import claims
from utils.claims import MEASURED, Display
from utils.elements import rich

CONTENT = Path(__file__).parent.parent / "data" / "understand.yaml"
GOAL = (1, 2, 3, 5, 7)  # asymmetry, routing, pruning, low rank, rank collapse
CRITERIA = ("mechanism", "evidence", "limit", "source")
FULL, ENOUGH = 2, 6  # points a criterion; points of 8 with which an explanation counts as correct
LETTERS = "abcdefgh"
BLOCKS = ("reasons", "sentences", "controls", "findings", "explanations")


@dataclass(frozen=True)
class Sentence:
    """A sentence of a talk, its verdict and reason. ``reasons``: read by who gives another; ``also``: accepted."""

    insight: int
    text: str
    verdict: str
    reason: str
    why: str
    reasons: Mapping[str, str]
    also: tuple[str, ...] = ()


@dataclass(frozen=True)
class Finding:
    """A finding, what is asked about it, and the name of the control that answers."""

    insight: int
    text: str
    asked: str
    control: str


@dataclass(frozen=True)
class Point:
    """A statement that belongs into an explanation (``needed``: what would be missing) or does not (``wrong``: why)."""

    text: str
    needed: str = ""
    wrong: str = ""


@dataclass(frozen=True)
class Explanation:
    """What a full explanation of an insight is. ``full``: what full marks need, by criterion."""

    insight: int
    title: str
    points: tuple[Point, ...]
    full: Mapping[str, str]
    answer: str
    errors: tuple[str, ...]
    rests: tuple[str, ...]
    own: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """Letters of the points that belong into it."""
        return "".join(LETTERS[i] for i, point in enumerate(self.points) if point.needed)


@functools.cache
def _content() -> dict:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return checked(yaml.load(CONTENT.read_text("utf8"), Loader=loader))


def checked(content: dict) -> dict:
    """The content. Raises ValueError for unknown reasons, controls, verdicts, and for a point that says two things."""
    if missing := [block for block in BLOCKS if not content.get(block)]:
        raise ValueError(f"the content lacks {', '.join(missing)}")
    for entry in content["sentences"]:
        named = [entry["reason"], *entry.get("also", []), *entry["reasons"]]
        if unknown := [name for name in named if name not in content["reasons"]]:
            raise ValueError(f"sentence {entry['insight']}: no reason is called {unknown[0]!r}")
        if entry["verdict"] not in MEASURED:
            raise ValueError(f"sentence {entry['insight']}: {entry['verdict']!r} is no verdict")
    for entry in content["findings"]:
        if entry["control"] not in content["controls"]:
            raise ValueError(f"finding {entry['insight']}: no control is called {entry['control']!r}")
    for entry in content["explanations"]:
        if tuple(entry["full"]) != CRITERIA:
            raise ValueError(f"insight {entry['insight']}: full marks are said for {', '.join(CRITERIA)}")
        for letter, point in zip(LETTERS, entry["points"], strict=False):
            if ("needed" in point) == ("wrong" in point):
                raise ValueError(f"insight {entry['insight']}, point {letter}: say needed or wrong, one of them")
    return content


def reasons() -> dict[str, str]:
    """Name of a reason → what it says of a sentence."""
    return dict(_content()["reasons"])


def sentences() -> dict[int, Sentence]:
    """Number of an insight → the sentence on it."""
    return {e["insight"]: Sentence(**e | {"also": tuple(e.get("also", ()))}) for e in _content()["sentences"]}


def controls() -> dict[str, str]:
    """Name of a control → what it is."""
    return {name: entry["text"] for name, entry in _content()["controls"].items()}


def shown_by(control: str) -> str:
    """What a control shows."""
    return _content()["controls"][control]["shows"]


def findings() -> dict[int, Finding]:
    """Number of an insight → the finding on it."""
    return {entry["insight"]: Finding(**entry) for entry in _content()["findings"]}


@functools.cache
def explanations() -> dict[int, Explanation]:
    """Number of an insight → what a full explanation of it is."""
    titles = {entry["id"]: entry["title"] for entry in claims.load()["insights"]}
    return {entry["insight"]: _explanation(entry, titles[entry["insight"]]) for entry in _content()["explanations"]}


def _explanation(entry: dict, title: str) -> Explanation:
    lists = {field: tuple(entry.get(field, ())) for field in ("errors", "rests", "own")}
    points = tuple(Point(**point) for point in entry["points"])
    return Explanation(entry["insight"], title, points, entry["full"], entry["answer"].strip(), **lists)


# ---- what the page shows


def talk() -> Display:
    """The sentences of the talk, the verdicts and the reasons."""
    verdicts = ", ".join(f'"{name}"' for name in MEASURED)
    html = _numbered({n: rich(each.text) for n, each in sentences().items()})
    html += f"<p>Verdicts: {verdicts}. Reasons:</p>{_named(reasons())}"
    lines = [f"{number}. {each.text}" for number, each in sentences().items()]
    lines += [f"Verdicts: {verdicts}. Reasons:", *(f'"{name}": {text}' for name, text in reasons().items())]
    return Display(f'<section aria-label="Eleven sentences of a talk">{html}</section>', "\n".join(lines))


def evidence() -> Display:
    """The findings, what is asked about each, and the controls to choose from."""
    html = _numbered({n: f"{rich(each.text)} <em>Asked: {each.asked}.</em>" for n, each in findings().items()})
    html += f"<p>Controls:</p>{_named(controls())}"
    lines = [f"{number}. {each.text} Asked: {each.asked}." for number, each in findings().items()]
    lines += ["Controls:", *(f'"{name}": {text}' for name, text in controls().items())]
    return Display(f'<section aria-label="Findings and controls">{html}</section>', "\n".join(lines))


def _numbered(items: Mapping[int, str]) -> str:
    """A list of HTML texts with the numbers of their insights."""
    rows = (f'<li value="{number}">{text}</li>' for number, text in items.items())
    return f"<ol>{''.join(rows)}</ol>"


def _named(items: Mapping[str, str]) -> str:
    """A list of names, as they are typed, and what they mean."""
    rows = (f'<li><strong>"{name}"</strong>: {rich(text)}</li>' for name, text in items.items())
    return f"<ul>{''.join(rows)}</ul>"


def points() -> Display:
    """All points to choose from, insight by insight."""
    parts, lines = [], []
    for number, each in explanations().items():
        texts = [(letter, point.text) for letter, point in zip(LETTERS, each.points, strict=False)]
        items = "".join(f"<li>{rich(text)}</li>" for _, text in texts)
        parts.append(f'<p><strong>{number} · {rich(each.title)}</strong></p><ol type="a">{items}</ol>')
        lines += [f"{number} · {each.title}", *(f"  {letter}. {text}" for letter, text in texts)]
    return Display(f'<section aria-label="Points">{"".join(parts)}</section>', "\n".join(lines))


def answers() -> Display:
    """Model answer, what full marks need, and typical errors of each insight, folded."""
    parts, lines = [], []
    for number, each in explanations().items():
        needs = "".join(f"<li><em>{name}:</em> {rich(each.full[name])}</li>" for name in CRITERIA)
        errors = "".join(f"<li>{rich(error)}</li>" for error in each.errors)
        parts.append(
            f"<details><summary>{number} · {rich(each.title)}</summary><p>{rich(each.answer)}</p>"
            f"<p>Two points each for:</p><ul>{needs}</ul><p>Typical errors:</p><ul>{errors}</ul></details>"
        )
        lines += [f"{number} · {each.title}", each.answer, *(f"  {name}: {each.full[name]}" for name in CRITERIA)]
        lines += [f"  error: {error}" for error in each.errors]
    return Display(f'<section aria-label="Model answers">{"".join(parts)}</section>', "\n".join(lines))


# ---- whether the goal is reached


def result(scores: Mapping[int, Sequence[int]]) -> pd.DataFrame:
    """Points of each explained insight, and whether it counts as correct; ``attrs["reached"]`` says it of the goal.

    scores: number of an insight → points for mechanism, evidence, limit and source, 0 to 2 each. Correct are 6 of 8
    points with the mechanism not at 0. Reached: the five of the goal are correct. Raises ValueError for other points,
    TypeError for what is no dictionary.
    """
    if not isinstance(scores, Mapping):
        raise TypeError(f"marks are a dictionary, insight → four marks, not {type(scores).__name__}")
    rows = []
    for number, given in scores.items():
        if number not in explanations():
            raise ValueError(f"insight {number!r} is not there: choose 1 to 11")
        fair = isinstance(given, Sequence) and len(given) == len(CRITERIA)
        fair = fair and all(isinstance(mark, int) and mark in range(FULL + 1) for mark in given)
        if not fair:
            raise ValueError(f"insight {number}: {given!r} are no four marks from 0 to {FULL} ({', '.join(CRITERIA)})")
        total = sum(given)
        rows.append([number, *given, total, total >= ENOUGH and given[0] > 0])
    found = pd.DataFrame(rows, columns=["insight", *CRITERIA, "points", "correct"]).set_index("insight")
    found.attrs["missing"] = [n for n in GOAL if n not in found.index or not found.correct[n]]
    found.attrs["reached"] = not found.attrs["missing"]
    return found
