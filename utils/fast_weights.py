"""Attention as a memory that is written while it is read: rules that write, feature maps, read-outs, measures.

A memory is a matrix W (d_value, d_dot). Reading gives W q for a query q of the width d_dot of the keys. Pairs are the
rows of ``keys`` (..., n, d_dot) and ``values`` (..., n, d_value), written from first to last; leading dimensions are a
batch. Source of rules and of DPFP: Schlag, Irie and Schmidhuber 2021 (arXiv 2102.11174).
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import elu


def identity(x: Tensor) -> Tensor:
    """φ(x) = x: a key is used as it is. d_dot = d_key."""
    return x


def elu_plus_one(x: Tensor) -> Tensor:
    """φ(x) = elu(x) + 1, entry by entry: always positive. d_dot = d_key."""
    return elu(x) + 1


def dpfp(x: Tensor, nu: int = 1) -> Tensor:
    """Deterministic parameter-free projection: (..., d_key) → (..., 2 · d_key · ν), never negative.

    With r = relu([x, −x]), the blocks are r · (r shifted by 1), …, r · (r shifted by ν).
    Raises ValueError unless ν is from 1 to 2 · d_key − 1 (a shift by 2 · d_key is no shift).
    """
    both = torch.cat([x, -x], dim=-1).relu()
    if not 1 <= nu < both.shape[-1]:
        raise ValueError(f"nu must be from 1 to {both.shape[-1] - 1} for keys of width {x.shape[-1]}, got {nu}")
    return torch.cat([both * both.roll(shift, dims=-1) for shift in range(1, nu + 1)], dim=-1)


def sum_rule(keys: Tensor, values: Tensor) -> Tensor:
    """W = Σ v ⊗ k: every pair is added. Returns (..., d_value, d_dot)."""
    _pairs(keys, values)
    return values.mT @ keys


def delta_writes(keys: Tensor, values: Tensor, strength: Tensor | float = 1.0) -> Tensor:
    """What the delta rule adds for each pair, u = β (v − W k): (..., n, d_value). All at once, without a loop.

    Pair i finds W = Σ_{j<i} u_j ⊗ k_j in the memory, so u_i + β_i Σ_{j<i} (k_j · k_i) u_j = β_i v_i: a triangular
    system. strength: β, one number or one a pair (..., n).
    """
    _pairs(keys, values)
    beta = torch.as_tensor(strength, dtype=keys.dtype, device=keys.device).expand(keys.shape[:-1])[..., None]
    before = (beta * (keys @ keys.mT)).tril(-1)
    return torch.linalg.solve_triangular(before, beta * values, upper=False, unitriangular=True)


def delta_rule(keys: Tensor, values: Tensor, strength: Tensor | float = 1.0, passes: int = 1) -> Tensor:
    """Each pair first reads what is stored under its key and writes the difference: (..., d_value, d_dot).

    W ← W + β (v − W k) ⊗ k, from first to last, ``passes`` times over. With β = 1 and keys of length 1 the pair
    written last is read back exactly. If the keys are linearly independent, many passes approach the least-squares
    memory (``best_memory``).
    """
    memory = sum_rule(keys, delta_writes(keys, values, strength))
    for _ in range(passes - 1):
        memory = memory + sum_rule(keys, delta_writes(keys, values - read(memory, keys), strength))
    return memory


def best_memory(keys: Tensor, values: Tensor) -> Tensor:
    """The matrix W that reads the pairs back with the least squared error, by any rule: (..., d_value, d_dot).

    It is exact if the keys are linearly independent. For n > d_dot keys in general position and independent values
    of mean 0 the error is 1 − d_dot/n on average: what no linear memory can beat, however it is scaled.
    """
    _pairs(keys, values)
    return (torch.linalg.pinv(keys) @ values).mT


def read(memory: Tensor, queries: Tensor) -> Tensor:
    """W q for each query: (..., d_value, d_dot) and (..., n, d_dot) → (..., n, d_value)."""
    return queries @ memory.mT


def normaliser(keys: Tensor, queries: Tensor) -> Tensor:
    """Σ_j k_j · q for each query: (..., n, 1). Dividing by it makes the weights of a read-out sum to 1."""
    return queries @ keys.sum(-2, keepdim=True).mT


def linear_attention(
    queries: Tensor, keys: Tensor, values: Tensor, *, causal: bool = False, normalised: bool = True
) -> Tensor:
    """Attention with scores q · k in place of e^(q·k): (..., n, d_value). Queries and keys come after the feature map.

    causal: query i reads pairs j ≤ i. normalised: rows of weights are divided by their sum, which positive features
    keep away from zero.
    """
    weights = queries @ keys.mT
    weights = weights.tril() if causal else weights
    weights = weights / weights.sum(-1, keepdim=True) if normalised else weights
    return weights @ values


def softmax_read(keys: Tensor, values: Tensor, queries: Tensor, sharpness: float) -> Tensor:
    """Softmax attention: values weighted by softmax of sharpness · (q · k): (..., n, d_value).

    All keys and values are kept. sharpness: β; 1/√d_head in a Transformer.
    """
    _pairs(keys, values)
    return (sharpness * queries @ keys.mT).softmax(-1) @ values


def relative_error(found: Tensor, values: Tensor) -> Tensor:
    """‖found − values‖² / ‖values‖² over all pairs: (..., n, d_value) → (...). Reading nothing (zeros) gives 1."""
    return (found - values).square().sum((-2, -1)) / values.square().sum((-2, -1))


def recalled(found: Tensor, values: Tensor, by: str = "distance") -> Tensor:
    """Which read-outs name the right one of all stored values: (..., n, d_value) → bool (..., n). Chance: 1/n.

    by: "distance", the right value is the nearest one (Euclidean), or "direction", it has the largest cosine after
    read-outs and values lose their mean over the n pairs. Direction does not change if all read-outs are scaled or
    shifted alike. Raises ValueError for another word.
    """
    if by == "distance":
        closeness = -torch.cdist(found, values)
    elif by == "direction":
        closeness = _directions(found) @ _directions(values).mT
    else:
        raise ValueError(f'by must be "distance" or "direction", got {by!r}')
    return closeness.argmax(-1) == torch.arange(values.shape[-2], device=values.device)


def recall_accuracy(found: Tensor, values: Tensor, by: str = "distance") -> Tensor:
    """Share of read-outs that name the right stored value (``recalled``): (..., n, d_value) → (...). Chance: 1/n."""
    return recalled(found, values, by).to(values.dtype).mean(-1)


def _directions(rows: Tensor) -> Tensor:
    return torch.nn.functional.normalize(rows - rows.mean(-2, keepdim=True), dim=-1)


def cosines(keys: Tensor) -> Tensor:
    """Cosines between different keys, (..., n, d) → (..., n (n − 1)).

    Null model: independent directions in d dimensions have |cosine| √(2/(π d)) on average (0.14 for d = 32) and mean
    square 1/d.
    """
    unit = torch.nn.functional.normalize(keys, dim=-1)
    different = ~torch.eye(keys.shape[-2], dtype=torch.bool, device=keys.device)
    return (unit @ unit.mT)[..., different]


def crosstalk(keys: Tensor) -> Tensor:
    """Σ_{j≠i} cos²(k_i, k_j), mean over i: (..., n, d) → (...). Error of the sum rule, values of mean 0.

    For unit keys and values that are independent with mean 0, this is the expected relative squared error. Random
    directions give (n − 1)/d; no keys in d dimensions give less than n/d − 1, since ‖K Kᵀ‖² ≥ n²/d. A scaled read-out
    can go below that, to the error of ``best_memory``.
    """
    return cosines(keys).square().sum(-1) / keys.shape[-2]


def _pairs(keys: Tensor, values: Tensor) -> None:
    if keys.ndim < 2 or values.ndim < 2 or keys.shape[-2] != values.shape[-2]:
        raise ValueError(
            f"keys (..., n, d_dot) and values (..., n, d_value) must come in pairs, got {tuple(keys.shape)} and "
            f"{tuple(values.shape)}"
        )
