"""The bank of questions (data/questions.yaml) of the assessment "Understand".

``questions`` gives all of them, or those of one insight, and refuses a bank that does not teach: an option without
feedback, feedback that stands twice, a key that is not stated, a claim that the ledger does not know.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from utils import claims

BANK = Path(__file__).parent.parent / "data" / "questions.yaml"
INSIGHTS = range(1, 12)
OPTIONS = range(3, 6)
FIELDS = {"id", "insight", "rests", "chapter", "section", "own", "several", "question", "options"}
NEEDED = ("id", "insight", "rests", "question", "options")


@dataclass(frozen=True)
class Option:
    """One answer, whether it is right, and what somebody who chose it reads."""

    text: str
    correct: bool
    feedback: str


@dataclass(frozen=True)
class Question:
    """A question on one insight. ``rests``: ids of claims. ``own``: numbers that are supposed or computed in it."""

    id: str
    insight: int
    text: str
    options: tuple[Option, ...]
    rests: tuple[str, ...]
    chapter: str | None = None
    section: str | None = None
    own: tuple[str, ...] = ()
    several: bool = False

    @property
    def keys(self) -> tuple[int, ...]:
        """Places of the right options, counted from 0."""
        return tuple(place for place, option in enumerate(self.options) if option.correct)


def questions(insight: int | None = None) -> list[Question]:
    """The bank in its order, or the questions of one insight (1 to 11). Raises ValueError for another insight."""
    if insight is not None and (isinstance(insight, bool) or insight not in INSIGHTS):
        raise ValueError(f"insight {insight!r} has no questions: choose 1 to 11")
    return [each for each in _bank() if insight in (None, each.insight)]


@functools.cache
def _bank() -> tuple[Question, ...]:
    return tuple(read(BANK))


def read(path: Path) -> list[Question]:
    """The questions of a file. Raises ValueError, with the question's id, for what a bank must not hold."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    entries = yaml.load(path.read_text("utf8"), Loader=loader)
    if not isinstance(entries, list) or not entries:
        raise ValueError(f"{path.name} holds {type(entries).__name__}: a list of questions is needed")
    return checked(_question(entry) for entry in entries)


def checked(bank: Iterable[Question]) -> list[Question]:
    """The questions, if no id, no question and no feedback stands twice. Raises ValueError otherwise."""
    bank = list(bank)
    for what, texts in {
        "id": [each.id for each in bank],
        "question": [_plain(each.text) for each in bank],
        "feedback": [_plain(option.feedback) for each in bank for option in each.options],
    }.items():
        (text, count), *_ = Counter(texts).most_common(1)
        if count > 1:
            raise ValueError(f"{what} stands {count} times: {text!r}")
    return bank


def _plain(text: str) -> str:
    """The words of a text, so that a comma or a capital makes no difference."""
    return " ".join("".join(c if c.isalnum() else " " for c in text.casefold()).split())


def _question(entry: object) -> Question:
    """One entry of the file as a question. Raises ValueError that names the entry and what is missing."""
    if not isinstance(entry, Mapping):
        raise ValueError(f"a question is a mapping with {', '.join(NEEDED)}, got {entry!r}")
    name = str(entry.get("id", "a question without id"))
    if missing := [field for field in NEEDED if not entry.get(field)]:
        raise ValueError(f"{name} lacks {', '.join(missing)}")
    if unknown := sorted(set(entry) - FIELDS):
        raise ValueError(f"{name} has the field {unknown[0]!r}: known are {', '.join(sorted(FIELDS))}")
    if entry["insight"] not in INSIGHTS:
        raise ValueError(f"{name} belongs to insight {entry['insight']!r}: there are 1 to 11")
    if ("chapter" in entry) != ("section" in entry):
        raise ValueError(f"{name} names a chapter without a section, or a section without a chapter")
    known = {claim["id"] for insight in claims.load()["insights"] for claim in insight["claims"]}
    if strangers := [claim for claim in entry["rests"] if claim not in known]:
        raise ValueError(f"{name} rests on {strangers[0]!r}, which the ledger does not have")
    options = _options(name, entry["options"])
    several, right = bool(entry.get("several", False)), sum(option.correct for option in options)
    if several and not 1 < right < len(options):
        raise ValueError(f"{name} says that several options are right, and {right} of {len(options)} are marked")
    if not several and right != 1:
        raise ValueError(f"{name} has {right} right options: mark exactly one, or state several: true")
    return Question(
        name,
        entry["insight"],
        entry["question"].strip(),
        options,
        tuple(entry["rests"]),
        entry.get("chapter"),
        entry.get("section"),
        tuple(str(number) for number in entry.get("own", ())),
        several,
    )


def _options(name: str, entries: object) -> tuple[Option, ...]:
    if not isinstance(entries, list) or len(entries) not in OPTIONS:
        count = len(entries) if isinstance(entries, list) else 0
        raise ValueError(f"{name} has {count} options: three to five are needed")
    found = []
    for place, entry in enumerate(entries, start=1):
        extra = set(entry) - {"text", "correct", "feedback"} if isinstance(entry, Mapping) else {"no mapping"}
        if extra:
            raise ValueError(f"{name}, option {place}: text, feedback and correct are known, not {sorted(extra)[0]!r}")
        text, feedback = (str(entry.get(field) or "").strip() for field in ("text", "feedback"))
        if not text or not feedback:
            raise ValueError(f"{name}, option {place} needs a text and a feedback")
        if not isinstance(entry.get("correct", False), bool):
            raise ValueError(f"{name}, option {place}: correct is {entry['correct']!r}, write true or leave it out")
        found.append(Option(text, entry.get("correct", False), feedback))
    if len({option.text for option in found}) < len(found):
        raise ValueError(f"{name} has the same option twice: {[option.text for option in found]}")
    return tuple(found)
