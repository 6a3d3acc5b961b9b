"""The memory-explorer: write pairs into a memory of two dimensions by hand, turn the keys, watch the interference."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

import torch

from utils import fast_weights as fw
from utils.elements import Figure, palette, rich, table
from utils.payload import SVG, data_uri

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
    return Figure("memory-explorer", data, alt, _fallback(data, alt))


def _fallback(data: dict, alt: str) -> str:
    """The keys that are written, and what each reads back, for where scripts do not run."""
    angles, values = (data[name][: data["written"]] for name in ("angles", "values"))
    found, errors = read_back(angles, values, data["rule"], data["sharpness"])
    rows = [
        [name, f"{angle}°", _numbers(value), _numbers(back), f"{error:.2f}"]
        for name, angle, value, back, error in zip(data["names"], angles, values, found, errors, strict=False)
    ]
    head = ["key", "angle", "value written", f"value read ({RULES[data['rule']]} rule)", "error"]
    image = f'<img alt="{escape(alt)}" src="{_picture(data["names"], angles)}">'
    return f"<p><strong>{rich(data['title'])}</strong></p><p>{image}</p>{table(head, rows)}"


def _picture(names: Sequence[str], angles: Sequence[float]) -> str:
    """The keys as named arrows in a circle, in a data URI."""
    arrows = ""
    for name, angle in zip(names, angles, strict=False):
        x, y = 110 + 96 * math.cos(math.radians(angle)), 115 - 96 * math.sin(math.radians(angle))
        arrows += (
            f'<path d="M0 0H78M68-5L78 0L68 5" transform="translate(110 110) rotate({-angle})"/>'
            f'<text x="{x:.0f}" y="{y:.0f}">{escape(name)}</text>'
        )
    colour = palette()["key"]["light"]
    return data_uri(
        f'<svg xmlns="{SVG}" width="220" height="220"><rect width="220" height="220" fill="#fff"/>'
        f'<circle cx="110" cy="110" r="78" fill="none" stroke="{palette()["null"]["light"]}"/>'
        f'<g stroke="{colour}" fill="none" stroke-width="2" text-anchor="middle">'
        f"<style>text{{font:15px sans-serif;fill:{colour};stroke:none}}</style>{arrows}</g></svg>".encode(),
        "image/svg+xml",
    )


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
