"""The interactive figures of the book: ``attention_explorer``, ``curve_explorer``, ``flow_explorer``, ``quiz_card``.

Each returns a ``Figure``; show it as the last expression of a cell.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

from utils.curves import curve_explorer
from utils.elements import Figure, rich
from utils.explorer import attention_explorer
from utils.flow_explorer import FlowView, flow_explorer, rollout_view

__all__ = ["Figure", "FlowView", "attention_explorer", "curve_explorer", "flow_explorer", "quiz_card", "rollout_view"]

VERDICT = {True: "Right.", False: "Not this one."}


def quiz_card(
    question: str, options: Sequence[tuple[str, bool, str]], *, keep_order: bool = False, alt: str | None = None
) -> Figure:
    """A question with three to five options, one of them right, and feedback on every option.

    options: (text, correct, feedback). Texts may hold `code`, _{sub} and ^{super}. The options are shown in an order
    drawn from the question's text, so that the right one is not where the author happens to write it; ``keep_order``
    keeps the given order (numbers, "all of these"), and then the right one must not be the first.
    """
    options = [tuple(option) for option in options]
    if not question.strip():
        raise ValueError("a quiz card needs a question")
    if any(len(option) != 3 for option in options):
        raise ValueError("each option is (text, correct, feedback)")
    if not 3 <= len(options) <= 5:
        raise ValueError(f"{len(options)} options: a quiz card has three to five")
    right = [text for text, correct, _ in options if correct]
    if len(right) != 1:
        raise ValueError(f"{len(right)} options are marked correct: exactly one must be")
    if len({text.strip() for text, _, _ in options}) != len(options):
        raise ValueError("two options have the same text")
    for text, _, feedback in options:
        if not text.strip() or not str(feedback).strip():
            raise ValueError(f"option {text!r} needs a text and a feedback")
    if keep_order and options[0][1]:
        raise ValueError("the right option stands first: move it, or leave the order to the card")
    if not keep_order:
        options.sort(key=lambda option: hashlib.sha256(f"{question}\n{option[0]}".encode()).digest())
    data = {
        "question": question,
        "options": [{"text": t, "correct": bool(c), "feedback": f} for t, c, f in options],
    }
    items = "".join(
        f"<li>{rich(t)}<details><summary>Feedback</summary>{VERDICT[bool(c)]} {rich(f)}</details></li>"
        for t, c, f in options
    )
    plain = re.sub(r"[`{}]|[_^](?=\{)", "", question)
    return Figure(
        "quiz-card", data, alt or f"Question: {plain}", f"<p><strong>{rich(question)}</strong></p><ol>{items}</ol>"
    )
