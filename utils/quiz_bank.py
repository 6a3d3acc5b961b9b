"""The quiz-bank: many questions in one figure, one after the other, by insight, with feedback on every option."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from utils import claims
from utils.elements import Figure, rich
from utils.questions import Question

HINT = "Choose an answer and check it. What you read then belongs to the option that you chose."
VERDICT = {True: "Right.", False: "Not this one."}
SEVERAL = "Several are right."


def quiz_bank(
    bank: Sequence[Question],
    *,
    title: str = "",
    groups: Mapping[str, Sequence[int]] | None = None,
    alt: str | None = None,
) -> Figure:
    """Questions one after the other; the reader chooses all of them, a group, or one insight.

    groups: further choices, a name → its insights. Without scripts the figure is a list, with the answers folded.
    Raises TypeError for what is no ``utils.questions.Question``, ValueError for an empty bank, for a group without
    questions and for an id that stands twice.
    """
    bank = list(bank)
    if strangers := [each for each in bank if not isinstance(each, Question)]:
        raise TypeError(f"questions are needed (utils.questions), got {type(strangers[0]).__name__}")
    if not bank:
        raise ValueError("a quiz bank needs at least one question")
    if len({each.id for each in bank}) < len(bank):
        raise ValueError("two questions have the same id")
    there = sorted({each.insight for each in bank})
    groups = {name: sorted(insights) for name, insights in (groups or {}).items()}
    for name, insights in groups.items():
        if not set(insights) & set(there):
            raise ValueError(f"the group {name!r} has no question: it names insights {insights}, there are {there}")
    titles = _titles()
    data = {
        "title": title,
        "hint": HINT,
        "groups": [{"name": name, "insights": insights} for name, insights in groups.items()],
        "insights": [{"number": number, "title": titles[number]} for number in there],
        "questions": [_entry(each) for each in bank],
    }
    alt = alt or f"{len(bank)} questions on {len(there)} insights, with feedback on every option."
    return Figure("quiz-bank", data, alt, _fallback(bank, titles, title))


def _titles() -> dict[int, str]:
    """Number of an insight → its title in the ledger."""
    return {entry["id"]: entry["title"] for entry in claims.load()["insights"] if isinstance(entry["id"], int)}


def _entry(question: Question) -> dict:
    options = [{"text": o.text, "correct": o.correct, "feedback": o.feedback} for o in question.options]
    return {
        "insight": question.insight,
        "question": question.text,
        "several": question.several,
        "place": _place(question),
        "options": options,
    }


def _place(question: Question) -> str:
    """Where the answer stands: claims of the ledger, and the section of a chapter."""
    rests = f"Rests on {', '.join(question.rests)}"
    return f"{rests}; chapter {question.insight}, “{question.section}”." if question.section else f"{rests}."


def _fallback(bank: Sequence[Question], titles: Mapping[int, str], title: str) -> str:
    """All questions as a list, the answers to each folded, for where scripts do not run."""
    parts = [f"<p><strong>{rich(title)}</strong></p>"] if title else []
    for number in sorted({each.insight for each in bank}):
        asked = "".join(_item(each) for each in bank if each.insight == number)
        parts.append(f"<p><strong>Insight {number} · {rich(titles[number])}</strong></p><ol>{asked}</ol>")
    return "".join(parts)


def _item(question: Question) -> str:
    texts = "".join(f"<li>{rich(option.text)}</li>" for option in question.options)
    answers = "".join(f"<li>{VERDICT[option.correct]} {rich(option.feedback)}</li>" for option in question.options)
    asked = rich(question.text) + (f" <em>{SEVERAL}</em>" if question.several else "")
    return (
        f'<li><p>{asked}</p><ol type="A">{texts}</ol>'
        f'<details><summary>Answers</summary><ol type="A">{answers}</ol><p>{rich(_place(question))}</p></details></li>'
    )
