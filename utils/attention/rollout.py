"""Attention rollout: how much of each input token could have reached each position, through all layers."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from utils.attention.maps import AttentionMaps, numbers

FUSIONS = {"mean": lambda weights: weights.mean(1), "max": lambda weights: weights.amax(1)}
FUSIONS["min"] = lambda weights: weights.amin(1)


def rollout(maps: AttentionMaps | Tensor, fusion: str = "mean", residual: float = 0.5) -> Tensor:
    """Rollout after each layer: (layers, queries, keys). Rows sum to 1; row i: from which inputs position i was mixed.

    maps: self-attention of all layers, from layer 0 on, or weights (layers, heads, n, n). fusion: how the heads of a
    layer become one matrix ("mean" as in the paper; "max" and "min" are common variants; rows are renormalised;
    heads that were removed from a model are left out).
    residual: the share of the skip connection, as if each layer were residual·I + (1 − residual)·A. Then the layers
    are multiplied: R_l = A_l R_(l−1). Values, norms and feed-forward parts are left out, so it is a bound on
    attention's paths, not on the information that flows.
    Source: Abnar & Zuidema 2020 (arXiv 2005.00928), section 3, with residual = 0.5.
    Raises ValueError for maps that are not square, begin later than layer 0, or leave a layer out.
    """
    if not isinstance(fusion, str) or fusion not in FUSIONS:
        raise ValueError(f"fusion must be one of {', '.join(FUSIONS)}, got {fusion!r}")
    if not 0 <= residual <= 1:
        raise ValueError(f"residual is a share from 0 to 1, got {residual}")
    if isinstance(maps, Mapping):
        raise TypeError(f"one of the maps is needed, not the dict of all: maps[{next(iter(maps), 'encoder')!r}]")
    weights = maps.weights if isinstance(maps, AttentionMaps) else torch.as_tensor(maps)
    if weights.ndim != 4 or weights.shape[-1] != weights.shape[-2] or 0 in weights.shape:
        raise ValueError(f"rollout needs self-attention (layers, heads, n, n), got the shape {tuple(weights.shape)}")
    if isinstance(maps, AttentionMaps) and maps.kind == "cross":
        raise ValueError("rollout needs self-attention: positions of cross-attention belong to two texts")
    if isinstance(maps, AttentionMaps) and maps.layers != list(range(len(maps.layers))):
        raise ValueError(f"rollout needs every layer from 0 on, got {numbers(maps.layers)}: extract without layers=")
    read = isinstance(maps, AttentionMaps)
    fused = torch.stack([_fused(layer.double(), fusion, read) for layer in weights])
    identity = torch.eye(fused.shape[-1], dtype=fused.dtype, device=fused.device)
    total = fused.sum(-1, keepdim=True)
    fused = torch.where(total == 0, identity, fused / total.where(total != 0, 1.0))  # NaN stays NaN
    steps = residual * identity + (1 - residual) * fused
    rolled = [steps[0]]
    for step in steps[1:]:
        rolled.append(step @ rolled[-1])
    return torch.stack(rolled).float()


def _fused(layer: Tensor, fusion: str, read: bool) -> Tensor:
    """One matrix (n, n) for a layer (heads, n, n); in maps ``read`` out of a model, NaN marks heads that were removed.

    Zeros if all were.
    """
    there = ~layer.isnan().flatten(1).all(1) | (not read)
    return FUSIONS[fusion](layer[None, there])[0] if there.any() else torch.zeros_like(layer[0])
