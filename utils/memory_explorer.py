"""The memory-explorer: write pairs into a memory of two dimensions by hand, turn the keys, watch the interference."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch

from utils import fast_weights as fw
from utils.elements import Figure, table

RULES = {"sum": "sum", "delta": "delta", "softmax": "softmax"}
HINT = (
    "Drag an arrow, or focus it and press the arrow keys, to turn a key. Pairs are written in the order A, B, C, …; "
    "then each key is asked for."
)


def memory_explorer(
    pairs: Mapping[str, tuple[float, Sequence[float]]],
    *,
    written: int | None = None,
    rule: str = "sum",
    sharpness: float = 8.0,
    title: str,
    alt: str,
) -> Figure:
    """Keys as arrows on a circle, the memory matrix, and what is read back for every key with its error.

    pairs: name → (angle of the key in degrees, value of three numbers), in the order of writing. written: how many
    pairs the figure opens with, all by default. rule: "sum", "delta" (strength 1) or "softmax" (with ``sharpness``).
    Keys have length 1; angles are rounded to 5 degrees.
    Raises ValueError for another rule, fewer than two or more than six pairs, and values that are not three numbers.
    """
    if rule not in RULES:
        raise ValueError(f"rule must be one of {', '.join(RULES)}, got {rule!r}")
    if not 2 <= len(pairs) <= 6:
        raise ValueError(f"the figure holds 2 to 6 pairs, got {len(pairs)}")
    if any(len(value) != 3 for _, value in pairs.values()):
        raise ValueError("each value has three numbers")
    written = len(pairs) if written is None else written
    if not 1 <= written <= len(pairs):
        raise ValueError(f"written must be from 1 to {len(pairs)}, got {written}")
    angles = [round(angle / 5) * 5 % 360 for angle, _ in pairs.values()]
    values = [[float(x) for x in value] for _, value in pairs.values()]
    data = {
        "angles": angles,
        "hint": HINT,
        "names": list(pairs),
        "rule": rule,
        "rules": [[key, label] for key, label in RULES.items()],
        "sharpness": sharpness,
        "title": title,
        "values": values,
        "written": written,
    }
    found, errors = read_back(angles[:written], values[:written], rule, sharpness)
    rows = [
        [name, f"{angle}°", _numbers(value), _numbers(back), f"{error:.2f}"]
        for name, angle, value, back, error in zip(pairs, angles, values, found, errors, strict=False)
    ]
    head = ["key", "angle", "value written", f"value read ({RULES[rule]} rule)", "error"]
    return Figure("memory-explorer", data, alt, f"<p><strong>{title}</strong></p>{table(head, rows)}")


def read_back(
    angles: Sequence[float], values: Sequence[Sequence[float]], rule: str, sharpness: float = 8.0
) -> tuple[list[list[float]], list[float]]:
    """What each key reads after all pairs were written, and its relative squared error. angles in degrees."""
    radians = [math.radians(angle) for angle in angles]
    keys = torch.tensor([[math.cos(a), math.sin(a)] for a in radians], dtype=torch.float64)
    stored = torch.tensor(values, dtype=torch.float64)
    if rule == "softmax":
        found = fw.softmax_read(keys, stored, keys, sharpness)
    else:
        write = fw.delta_rule if rule == "delta" else fw.sum_rule
        found = fw.read(write(keys, stored), keys)
    errors = (found - stored).square().sum(1) / stored.square().sum(1)
    return found.tolist(), errors.tolist()


def _numbers(values: Sequence[float]) -> str:
    return "  ".join(f"{value + 0.0:.2f}".replace("-0.00", "0.00").replace("-", "−") for value in values)
