"""Attention whose cost grows with n, not n²: windows, random features, masks of windows, global tokens and links.

Shapes: queries, keys, values (..., n, d_head); masks (n, n), True where the query of a row may read a key.
Windows are exact for their mask. Random features and feature maps approximate or replace softmax. Linformer's
projection is in ``utils.low_rank``, feature maps in ``utils.fast_weights``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import pad, scaled_dot_product_attention

Way = Callable[[Tensor, Tensor, Tensor], Tensor]  # queries, keys, values → outputs


def eager(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """softmax(Q Kᵀ / √d_head) V as it is written: all n² scores of a head are held."""
    return (queries @ keys.mT / queries.shape[-1] ** 0.5).softmax(-1) @ values


def window_mask(n: int, reach: int) -> Tensor:
    """Each token reads itself and ``reach`` tokens on either side: (n, n)."""
    if reach < 0:
        raise ValueError(f"reach is the number of tokens on either side, not negative, got {reach}")
    place = torch.arange(n)
    return (place[:, None] - place).abs() <= reach


def global_mask(n: int, tokens: int) -> Tensor:
    """The first ``tokens`` tokens read all and are read by all: (n, n)."""
    chosen = torch.arange(n) < tokens
    return chosen[:, None] | chosen


def random_mask(n: int, links: int, seed: int = 0) -> Tensor:
    """Each token reads ``links`` tokens drawn without repetition: (n, n), and ``links`` True in each row."""
    if not 0 <= links <= n:
        raise ValueError(f"links must be from 0 to {n}, the number of tokens, got {links}")
    generator = torch.Generator().manual_seed(seed)
    chosen = torch.rand(n, n, generator=generator).topk(links, dim=-1).indices
    return torch.zeros(n, n, dtype=torch.bool).scatter(-1, chosen, True)


def layers_needed(allowed: Tensor) -> int:
    """Layers until every token can have heard of every other one, each layer reading under one mask (n, n).

    Raises ValueError when some never can.
    """
    reached = torch.eye(len(allowed))
    for count in range(len(allowed)):
        if reached.all():
            return count
        reached = ((allowed.float() @ reached + reached) > 0).float()
    raise ValueError("with this mask some tokens never hear of some others: let each token read a neighbour")


def windowed(queries: Tensor, keys: Tensor, values: Tensor, reach: int) -> Tensor:
    """Attention under ``window_mask(n, reach)`` without an n × n matrix: n · 3 · reach scores a head.

    Blocks of ``reach`` queries meet their own block of keys and its two neighbours; what is out of reach is masked.
    Texts of any length: padded to whole blocks, and cut again. Source: blocks as in Longformer, Beltagy et al. 2020.
    """
    if reach < 1:
        raise ValueError(f"reach must be at least 1 token on either side, got {reach}")
    n, d = queries.shape[-2:]
    more = -n % reach
    blocks = (n + more) // reach
    near = [pad(x, (0, 0, reach, reach + more)).unfold(-2, 3 * reach, reach).mT for x in (keys, values)]
    q = pad(queries, (0, 0, 0, more)).unflatten(-2, (blocks, reach))  # (..., blocks, reach, d)
    scores = q @ near[0].mT / d**0.5  # (..., blocks, reach, 3 · reach)
    start = torch.arange(blocks)[:, None, None] * reach
    i, j = start + torch.arange(reach)[:, None], start + torch.arange(-reach, 2 * reach)
    allowed = ((i - j).abs() <= reach) & (j >= 0) & (j < n)
    allowed |= i >= n  # padded queries read anything: their rows are cut off, and must not be empty
    weights = scores.masked_fill_(~allowed, -torch.inf).softmax(-1)
    return (weights @ near[1]).flatten(-3, -2)[..., :n, :]


def from_features(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Attention with scores φ(q) · φ(k), summed over keys first: (..., n, d_head), without an n × n matrix.

    queries, keys: after the feature map, (..., n, m), positive. Equal to ``fast_weights.linear_attention``, which
    builds the matrix. Source: Katharopoulos et al. 2020 (arXiv 2006.16236).
    """
    return queries @ (keys.mT @ values) / (queries @ keys.sum(-2, keepdim=True).mT)


def directions(m: int, d: int, seed: int = 0) -> Tensor:
    """Random directions (m, d) for ``positive_features``: each a Gaussian vector, orthogonal within each block of d.

    QR alone would favour some directions: it leaves the signs of R's diagonal to its algorithm, and only with them made
    positive is Q uniform. Source: Mezzadri 2007 (math-ph/0609050).
    """
    if m < 1 or d < 1:
        raise ValueError(f"m and d must be at least 1, got {m} and {d}")
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randn(2, -(-m // d), d, d, generator=generator)
    q, r = torch.linalg.qr(drawn[0])
    q = q * r.diagonal(dim1=-2, dim2=-1).sign()[..., None, :]
    return (q * drawn[1].norm(dim=-1, keepdim=True)).flatten(0, 1)[:m]


def positive_features(x: Tensor, w: Tensor) -> Tensor:
    """Performer's features of queries or keys: (..., n, d_head) and directions (m, d_head) → (..., n, m), positive.

    The mean of φ(q) · φ(k) over Gaussian w is e^(q·k/√d_head). Source: Choromanski et al. 2021 (FAVOR+).
    """
    if w.shape[-1] != x.shape[-1]:
        raise ValueError(f"directions of width {w.shape[-1]} do not fit vectors of width {x.shape[-1]}")
    x = x / x.shape[-1] ** 0.25
    return (x @ w.mT - x.square().sum(-1, keepdim=True) / 2).exp() / len(w) ** 0.5


def performer(queries: Tensor, keys: Tensor, values: Tensor, w: Tensor) -> Tensor:
    """Softmax attention estimated with random directions w (m, d_head): (..., n, d_head).

    Exponents are shifted so that none overflows: by the largest of a query, and by the largest of all keys of a head.
    Both cancel in the normaliser.
    """
    scale = queries.shape[-1] ** -0.25
    shifted = []
    for x, dims in ((queries * scale, (-1,)), (keys * scale, (-2, -1))):
        exponents = x @ w.mT - x.square().sum(-1, keepdim=True) / 2
        shifted.append((exponents - exponents.amax(dims, keepdim=True)).exp())
    return from_features(*shifted, values)


def uniform(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """The null model: ignores queries and keys, each output is the mean of the values (..., n, d_head)."""
    return values.mean(-2, keepdim=True).expand_as(values)


def masked(allowed: Tensor) -> Way:
    """The way to attend that computes all scores and uses those under one mask (n, n)."""
    return partial(scaled_dot_product_attention, attn_mask=allowed)


def error(found: Tensor, exact: Tensor) -> Tensor:
    """Relative error of outputs of a head, ‖found − exact‖ / ‖exact‖: (..., n, d_head) → (...)."""
    return (found - exact).norm(dim=(-2, -1)) / exact.norm(dim=(-2, -1))


def errors(ways: Mapping[str, Way], layers: Sequence[tuple[Tensor, Tensor, Tensor]]) -> dict[str, Tensor]:
    """Relative error of each head under each way, a mean over texts: name → (layers · heads,).

    layers: queries, keys and values (texts, heads, n, d_head) of each layer, as of ``low_rank.heads_of_text``.
    """
    exact = [eager(*layer) for layer in layers]
    return {
        name: torch.cat([error(way(*each), right).mean(0) for each, right in zip(layers, exact, strict=True)])
        for name, way in ways.items()
    }
