"""A pytest plugin for nbval: a short report where two outputs differ.

pytest's own comparison of two long lines, such as the HTML of a figure, takes minutes and fills the screen.
"""

from __future__ import annotations

AROUND = 80


def pytest_assertrepr_compare(op: str, left: object, right: object) -> list[str] | None:
    """The first place at which two texts differ, with what stands around it."""
    if op != "==" or not isinstance(left, str) or not isinstance(right, str):
        return None
    pairs = zip(left, right, strict=False)
    first = next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(left), len(right)))
    start = max(0, first - AROUND)
    return [
        f"the texts differ at character {first}",
        f"stored: …{left[start : first + AROUND]}…",
        f"now:    …{right[start : first + AROUND]}…",
    ]
