"""One token followed through the layers of an encoder: a graph of tokens × layers for the flow-explorer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import NamedTuple

import numpy as np

from utils.elements import Figure, palette, table
from utils.payload import picture

MAX_TOKENS = 24


class FlowView(NamedTuple):
    """One way to say how much goes from where to where.

    forward: (layers + 1, receiving, sending), entry l: how much of input token ``sending`` is at ``receiving`` after l
    layers. backward: the same shape, entry l: how much of what is at ``sending`` after l layers reaches the last
    layer's ``receiving``. from_text, to_text: what a number means when one follows an input, or asks for the sources of
    an output; unit: in short.
    """

    forward: np.ndarray
    backward: np.ndarray
    from_text: str
    to_text: str
    unit: str


def rollout_view(maps: np.ndarray, residual: float, from_text: str, to_text: str) -> FlowView:
    """The view of attention rollout. maps: (layers, n, n), one a layer, heads fused; residual: share of the skip."""
    start = np.eye(np.shape(maps)[-1])
    steps = [residual * start + (1 - residual) * np.asarray(each, dtype=float) for each in maps]
    forward, backward = [start], [start]
    for step in steps:
        forward.append(step @ forward[-1])
    for step in reversed(steps):
        backward.append(backward[-1] @ step)
    return FlowView(np.stack(forward), np.stack(backward[::-1]), from_text, to_text, "share of the row")


def flow_explorer(
    tokens: Sequence[str],
    views: Mapping[str, FlowView],
    edges: np.ndarray,
    *,
    special: Sequence[bool] = (),
    title: str = "",
    token: int | None = None,
    side: str = "from",
    alt: str,
) -> Figure:
    """The reader chooses an input token and sees where it goes, or an output position and sees where it comes from.

    tokens: labels, at most 24. views: name → ``FlowView``; a switch changes between them. edges: (layers, queries,
    keys), what the lines between two layers are weighed with, for example the mean of the heads. token, side ("from"
    or "to"): how it opens. Line and dot show amounts on a square-root scale with one maximum for all tokens of a view.
    Raises ValueError for more tokens, or for shapes that do not fit.
    """
    n, edges = len(tokens), np.asarray(edges, dtype=np.float32)
    if not 1 <= n <= MAX_TOKENS:
        raise ValueError(f"{n} tokens: the figure is readable with 1 to {MAX_TOKENS}")
    if edges.ndim != 3 or edges.shape[1:] != (n, n):
        raise ValueError(f"edges must have the shape (layers, {n}, {n}), got {edges.shape}")
    expected = (len(edges) + 1, n, n)
    for name, view in views.items():
        for values in (view.forward, view.backward):
            if np.shape(values) != expected or not np.isfinite(values).all() or np.min(values) < 0:
                raise ValueError(f"view {name!r} needs amounts ≥ 0 of shape {expected}, got {np.shape(values)}")
    if side not in ("from", "to") or not views:
        raise ValueError(f'side must be "from" or "to" and at least one view is needed, got {side!r}')
    token = n // 2 if token is None else token
    if not 0 <= token < n:
        raise ValueError(f"token {token} does not exist: the text has tokens 0 to {n - 1}")
    data = {
        "hint": "Choose a word on the left to see where its content goes, or one on the right to see where it "
        "comes from; arrow keys work too.",
        "open": {"side": side, "token": int(token), "view": 0},
        "special": [int(mark) for mark in special] or [0] * n,
        "title": title,
        "tokens": list(tokens),
        "views": [{"name": k, "from": v.from_text, "to": v.to_text, "unit": v.unit} for k, v in views.items()],
    }
    arrays = {
        "edges": edges,
        "from": np.stack([np.asarray(view.forward, dtype=np.float32) for view in views.values()]),
        "to": np.stack([np.asarray(view.backward, dtype=np.float32) for view in views.values()]),
    }
    return Figure("flow-explorer", data, alt, _fallback(tokens, arrays, token, side, title, alt), arrays)


def _fallback(tokens: Sequence[str], arrays: dict, token: int, side: str, title: str, alt: str) -> str:
    """A picture (tokens × layers) and a table of the opening state, for where scripts do not run."""
    values = arrays["from"][0][:, :, token] if side == "from" else arrays["to"][0][:, token, :]
    drawn = picture(values.T / (values.max() or 1), palette()["value"]["light"])
    end = values[-1] if side == "from" else values[0]
    best = sorted(range(len(tokens)), key=lambda i: -end[i])[:6]
    names = ["input", *(f"layer {layer}" for layer in range(len(values) - 1))]
    rows = [[tokens[i], *(f"{values[level, i]:.2f}" for level in range(len(values)))] for i in best]
    heading = f"<p><strong>{escape(title)}</strong></p>" if title else ""
    note = f"<p>{'From' if side == 'from' else 'To'} {escape(tokens[token])}: rows are tokens, columns layers.</p>"
    return f'{heading}<img alt="{escape(alt)}" src="{drawn}">{note}{table(["token", *names], rows)}'
