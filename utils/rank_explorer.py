"""The rank-explorer: attention maps beside their best approximation of a rank that the reader chooses."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from utils.elements import Figure, palette, rich, table
from utils.low_rank import truncated
from utils.payload import picture
from utils.spectra import cumulative_spectrum, spectrum

LARGEST = 64  # tokens: larger maps are neither seen nor decomposed quickly on a page
HINT = "Choose a map and move the rank, also by dragging along the bars."


class Truncation(NamedTuple):
    """What is left of a map at a rank: shares of Σσ and Σσ², relative error, mean cosine of the rows of outputs."""

    one: float
    two: float
    error: float
    cosine: float


def truncation(weights: Tensor, values: Tensor, k: int) -> Truncation:
    """Measures of the best rank-k approximation of a map. weights: (n, n); values: (n, d_head)."""
    weights, values = weights.double(), values.double()
    sigma = spectrum(weights)
    one, two = (float(cumulative_spectrum(sigma, power)[k - 1]) for power in (1, 2))
    cosines = torch.cosine_similarity(truncated(weights, k) @ values, weights @ values, dim=-1)
    return Truncation(one, two, max(0.0, 1 - two) ** 0.5, float(cosines.mean()))


def rank_explorer(
    heads: Mapping[str, tuple[Tensor, Tensor]], *, head: str, rank: int, title: str = "", alt: str
) -> Figure:
    """Maps whose rank the reader lowers: the map, the approximation, its singular values, and what the outputs lose.

    heads: name → (weights (n, n), values (n, d_head)), all of one n ≤ 64 and one d_head. head, rank: shown first.
    Raises ValueError for shapes that do not fit and for a head or a rank that does not exist.
    """
    if not heads or head not in heads:
        raise ValueError(f"no map is called {head!r}: there are {', '.join(map(repr, heads)) or 'none'}")
    shapes = {(tuple(weights.shape), tuple(values.shape)) for weights, values in heads.values()}
    (weights, values), *more = shapes
    if more or len(weights) != 2 or len(values) != 2 or not weights[0] == weights[1] == values[0]:
        raise ValueError(f"maps (n, n) and values (n, d_head) of one size are needed, got {sorted(shapes)}")
    n = weights[0]
    if n > LARGEST:
        raise ValueError(f"maps of {n} tokens are too large for this figure: at most {LARGEST}")
    if not 1 <= rank <= n:
        raise ValueError(f"rank must be from 1 to {n}, got {rank}")
    names = list(heads)
    data = {"head": names.index(head), "heads": names, "hint": HINT, "rank": int(rank), "title": title}
    arrays = {
        "maps": np.stack([w.detach().float().numpy() for w, _ in heads.values()]),
        "values": np.stack([v.detach().float().numpy() for _, v in heads.values()]),
    }
    return Figure("rank-explorer", data, alt, _fallback(heads, head, rank, title), arrays)


def _percent(v: float) -> str:
    """As the element writes it: a decimal where a whole number would hide what is left or what is lost."""
    return f"{100 * v:.{int(v < 0.0995 or 0.9949 < v < 1)}f} %"


def _fallback(heads, head: str, rank: int, title: str) -> str:
    """The opening map, its approximation, and a row a map at the opening rank, for where scripts do not run."""
    rows = []
    for name, (weights, values) in heads.items():
        found = truncation(weights, values, rank)
        rows.append([name, *map(_percent, found[:3]), f"{found.cosine:.2f}"])
    weights = heads[head][0]
    shown = {"all of it": weights, f"rank {rank}": truncated(weights.double(), rank)}
    pictures = "".join(
        f'<img alt="{escape(head)}, {name}" src="{picture(w.numpy(), palette()["amount"]["light"])}"> '
        for name, w in shown.items()
    )
    columns = [f"at rank {rank}", "Σσ kept", "Σσ² kept", "error", "cosine of outputs"]
    heading = f"<p><strong>{rich(title)}</strong></p>" if title else ""
    return f"{heading}<p>{pictures}</p>{table(columns, rows)}"
