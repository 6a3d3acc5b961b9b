"""The collapse-explorer: the tokens of a text as points that fall together, or do not, as a model gets deeper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np
import torch
from torch import Tensor

from utils.elements import Figure, palette, rich, table
from utils.payload import SVG, data_uri
from utils.spectra import rank_residual

FLOOR = 1e-12  # a smaller residual is shown as this: what is left in float64 is rounding
PARTS = ("skip", "MLP", "LayerNorm")
COMBINATIONS = tuple(product((True, False), repeat=3))  # in the order in which the figure stores them
LARGEST = 64  # tokens
HINT = "Switch parts on and off, then move through the layers, also by dragging along the curve."


def collapse_explorer(
    states: Mapping[tuple[bool, bool, bool], Tensor],
    labels: Sequence[str],
    *,
    parts: tuple[bool, bool, bool] = (False, True, True),
    depth: int = 2,
    title: str = "",
    alt: str,
) -> Figure:
    """The tokens of one text after each layer as points in a plane, with three switches, and the residual as a curve.

    states: (skip, mlp, norm) → (layers + 1, n, width) for all eight combinations. labels: a word for each of the n
    tokens. parts, depth: what is shown first.
    Raises ValueError for a combination that is missing, shapes that differ, labels or a depth that do not fit.
    """
    if missing := [each for each in COMBINATIONS if each not in states]:
        raise ValueError(f"states of all eight (skip, mlp, norm) are needed, {missing[0]} is missing")
    shapes = {tuple(each.shape) for each in states.values()}
    if len(shapes) > 1 or len(*shapes) != 3:
        raise ValueError(f"states (layers + 1, n, width) of one shape are needed, got {sorted(shapes)}")
    ((layers, n, _),) = shapes
    if len(labels) != n or n > LARGEST:
        raise ValueError(f"{n} tokens need {n} labels and may be {LARGEST} at most, got {len(labels)} labels")
    if not 0 <= depth < layers or tuple(parts) not in states:
        raise ValueError(f"depth must be from 0 to {layers - 1} and parts three booleans, got {depth} and {parts}")
    points = np.stack([plane(states[each]) for each in COMBINATIONS])
    logs = np.stack([_log(states[each]) for each in COMBINATIONS])
    data = {"depth": int(depth), "hint": HINT, "labels": list(labels), "names": PARTS, "title": title}
    data |= {"parts": [bool(each) for each in parts]}
    fallback = _fallback(points, logs, COMBINATIONS.index(tuple(parts)), depth, title)
    return Figure("collapse-explorer", data, alt, fallback, {"points": points, "logs": logs})


def plane(states: Tensor) -> np.ndarray:
    """Tokens as points: (layers + 1, n, width) → (layers + 1, n, 2), in float32.

    The two principal axes of what tells tokens apart, turned so that each layer lies as the one before, and scaled so
    that the root mean square distance from the middle is the residual ‖X − 1x̄‖ / ‖X‖, with x̄ the mean row: the middle.
    """
    found, before = [], None
    for state in states.double():
        centred = state - state.mean(-2, keepdim=True)
        left, sigma, _ = torch.linalg.svd(centred, full_matrices=False)
        flat = left[:, :2] * sigma[:2] / sigma[:2].norm().clamp_min(1e-300)
        if before is None:  # the first layer: signs so that the largest coordinate is positive
            largest = flat.gather(0, flat.abs().argmax(0, keepdim=True))
            flat = flat * largest.sign()
        else:
            u, _, v = torch.linalg.svd(flat.T @ before)
            flat = flat @ (u @ v)
        before = flat
        residual = float(rank_residual(state))
        found.append((flat * len(state) ** 0.5 * residual).numpy())
    return np.stack(found).astype(np.float32)


def _log(states: Tensor) -> np.ndarray:
    """log₁₀ of the residual of each layer, not below that of FLOOR."""
    return rank_residual(states.double()).clamp_min(FLOOR).log10().numpy().astype(np.float32)


def _fallback(points: np.ndarray, logs: np.ndarray, chosen: int, depth: int, title: str) -> str:
    """The opening picture, and the residual of every combination layer by layer, for where scripts do not run."""
    shades = [(points[chosen, 0], palette()["null"]["light"], 0.4), (points[chosen, depth], "#0c428d", 1)]
    dots = "".join(
        f'<circle cx="{x:.2f}" cy="{-y:.2f}" r=".05" fill="{shade}" opacity="{opacity}"/>'
        for place, shade, opacity in shades
        for x, y in place
    )
    drawing = f'<svg xmlns="{SVG}" viewBox="-3 -3 6 6" width="240" height="240">{dots}</svg>'
    rows = [
        [_name(parts), *("below 1e-12" if v <= np.log10(FLOOR) else f"{10.0**v:.2g}" for v in row)]
        for parts, row in zip(COMBINATIONS, logs, strict=True)
    ]
    alt = f"Tokens after {depth} layers: {_name(COMBINATIONS[chosen])}"
    heading = f"<p><strong>{rich(title)}</strong></p>" if title else ""
    columns = ["residual after layer", *map(str, range(logs.shape[1]))]
    image = f'<img alt="{alt}" src="{data_uri(drawing.encode(), "image/svg+xml")}">'
    return f"{heading}<p>{image}</p>{table(columns, rows)}"


def _name(parts: tuple[bool, bool, bool]) -> str:
    on = [name for name, there in zip(PARTS, parts, strict=True) if there]
    return "attention" + (f" + {' + '.join(on)}" if on else " alone")
