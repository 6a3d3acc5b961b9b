"""Null models: what maps and states look like when nothing was learned. To be plotted beside the real ones."""

from __future__ import annotations

import math
from numbers import Integral, Real

import torch
from torch import Tensor

KINDS = ("gaussian", "low-rank", "uniform", "shift")


def null_maps(
    n: int, kind: str, *, samples: int = 1, scale: float = 1.0, d_head: int = 64, offset: int = -1, seed: int = 0
) -> Tensor:
    """Maps (samples, n, n) in float64 that no training made; every row sums to 1.

    kind: "gaussian" is softmax of independent scores N(0, scale²); "low-rank" is softmax of scale · Q Kᵀ / √d_head
    with Gaussian Q, K of n × d_head, what a head computes whose inputs are noise; "uniform" reads all keys alike;
    "shift" reads the key at ``offset``, where the text is a ring, so that it is a permutation: all its singular
    values are 1. The seed decides the first two; the others are the same in every sample. The greater the scale, the
    sharper the rows and the higher the rank: compare at a scale whose entropy is like that of the real map.
    """
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {', '.join(map(repr, KINDS))}, got {kind!r}")
    for value, name in ((n, "n"), (samples, "samples"), (d_head, "d_head")):
        _whole(value, name)
    if not isinstance(scale, Real) or not math.isfinite(scale):
        raise ValueError(f"scale must be a finite number, got {scale!r}")
    if not isinstance(offset, Integral):
        raise ValueError(f"offset must be a whole number of keys, got {offset!r}")
    generator = _generator(seed)
    if kind == "uniform":
        return torch.full((samples, n, n), 1 / n, dtype=torch.float64)
    if kind == "shift":
        return torch.eye(n, dtype=torch.float64).roll(offset, 1).repeat(samples, 1, 1)
    if kind == "gaussian":
        scores = _normal(samples, n, n, generator=generator)
    else:
        queries, keys = _normal(2, samples, n, d_head, generator=generator)
        scores = queries @ keys.mT / d_head**0.5
    return (scale * scores).softmax(-1)


def null_states(n: int, width: int, *, samples: int = 1, seed: int = 0) -> Tensor:
    """Hidden states (samples, n, width) in float64: independent Gaussian numbers, so that tokens share nothing.

    Their ``rank_residual`` is √(1 − 1/n) on average.
    """
    for value, name in ((n, "n"), (width, "width"), (samples, "samples")):
        _whole(value, name)
    return _normal(samples, n, width, generator=_generator(seed))


def permuted_maps(weights: Tensor, *, causal: bool = False, seed: int = 0) -> Tensor:
    """The same maps with the keys of each row in random order: (..., queries, keys) → the same shape.

    Every row keeps its weights, so its entropy and its greatest weight, but forgets which key had them. The null model
    of a similarity between heads. causal: row i permutes keys 0 to i only.
    """
    if not isinstance(weights, Tensor):
        raise TypeError(f"maps must be a tensor (..., queries, keys), got {type(weights).__name__}")
    if weights.ndim < 2:
        raise ValueError(f"maps (..., queries, keys) are needed, got the shape {tuple(weights.shape)}")
    order = torch.rand(weights.shape, generator=_generator(seed)).to(weights.device)
    if causal:
        keys = torch.arange(weights.shape[-1], device=weights.device)
        future = keys > torch.arange(weights.shape[-2], device=weights.device)[:, None]
        order = torch.where(future, 2.0 + keys, order)  # the future stays where it is
    return weights.gather(-1, order.argsort(-1))


def _normal(*shape: int, generator: torch.Generator) -> Tensor:
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def _generator(seed: int) -> torch.Generator:
    if not isinstance(seed, Integral) or isinstance(seed, bool) or not 0 <= seed < 2**63:
        raise ValueError(f"seed must be a whole number from 0 on, got {seed!r}")
    return torch.Generator().manual_seed(int(seed))


def _whole(value: int, name: str) -> None:
    if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{name} must be a whole number of at least 1, got {value!r}")
