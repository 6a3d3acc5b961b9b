"""How many dimensions a matrix needs, and how far the rows of hidden states are from being all the same.

Singular values σ are computed in float64. "Share" means Σσ of the first k over Σσ of all (``power=1``) or the same with
σ² (``power=2``, the squared Frobenius norm). The two give very different numbers for the same map, so say which one you
use. Null models to plot beside a map: ``utils.nulls``.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Spectrum(NamedTuple):
    """Singular values (..., k) in float64, falling: one decomposition for several measures."""

    values: Tensor


def spectrum(matrix: Tensor | Spectrum) -> Spectrum:
    """The singular values of (..., n, m) matrices: (..., min(n, m)). Every measure here takes it in a matrix's place.

    Raises TypeError for what is no tensor, ValueError for one that is no matrix or holds NaN or infinity.
    """
    if isinstance(matrix, Spectrum):
        return matrix
    matrix = _numbers(matrix, "matrix")
    if matrix.ndim < 2 or 0 in matrix.shape[-2:]:
        raise ValueError(f"a matrix (..., n, m) is needed, got the shape {tuple(matrix.shape)}")
    return Spectrum(torch.linalg.svdvals(matrix))


def cumulative_spectrum(matrix: Tensor | Spectrum, power: int = 1) -> Tensor:
    """Share of Σσ (power 1) or Σσ² (power 2) in the first k singular values: (..., n, m) → (..., min(n, m)).

    Entry k − 1 belongs to k values; the last is 1. A matrix of zeros has no share: NaN.
    Null models at n = 512, k = 128, power 1: a permutation (shift by one) has 0.25, all singular values being equal;
    a uniform map has 1, its rank being 1; softmax of random scores lies between: ``nulls.null_maps``.
    """
    values = _powers(matrix, power)
    return values.cumsum(-1) / values.sum(-1, keepdim=True)


def needed_rank(matrix: Tensor | Spectrum, share: float = 0.9, power: int = 1) -> Tensor:
    """The least k whose first k singular values hold ``share`` of Σσ (or Σσ²): (..., n, m) → (...), whole numbers.

    0 for a matrix of zeros. Null models: share · n, rounded up, for a permutation of n; 1 for a uniform map.
    Raises ValueError for a share outside 0 to 1.
    """
    if not 0 < share <= 1:
        raise ValueError(f"share must lie above 0 and be 1 at most, got {share}: 0.9 asks for 90 %")
    values = _powers(matrix, power)
    total = values.sum(-1, keepdim=True)
    missing = values.cumsum(-1) < share * total * (1 - 1e-12)  # a sum of rounded numbers may miss its own total
    return (missing.sum(-1) + 1) * (total[..., 0] > 0)


def numerical_rank(matrix: Tensor | Spectrum, tolerance: float = 1e-5) -> Tensor:
    """How many singular values exceed ``tolerance`` times the greatest: (..., n, m) → (...), whole numbers.

    float32 maps carry rounding of about 1e-7 times their size, so a tolerance below 1e-6 counts noise in them.
    Null models: scores Q Kᵀ have rank d_head at most; their softmax has nearly full rank (softmax raises it); a uniform
    map has 1. Raises ValueError for a tolerance outside 0 to 1.
    """
    if not 0 <= tolerance < 1:
        raise ValueError(f"tolerance must be from 0 to below 1, got {tolerance}: it is relative to the greatest value")
    values = spectrum(matrix).values
    return (values > tolerance * values[..., :1]).sum(-1)


def effective_rank(matrix: Tensor | Spectrum) -> Tensor:
    """exp of the entropy of σ/Σσ: (..., n, m) → (...), between 1 and the rank. Zeros have none: NaN.

    Null models: n for a permutation of n, 1 for a uniform map. Source: Roy & Vetterli 2007, "The effective rank: a
    measure of effective dimensionality", EUSIPCO.
    """
    values = spectrum(matrix).values
    return torch.special.entr(values / values.sum(-1, keepdim=True)).sum(-1).exp()


def stable_rank(matrix: Tensor | Spectrum) -> Tensor:
    """Σσ² / σ₁²: (..., n, m) → (...), between 1 and the rank. Zeros have none: NaN.

    It hardly sees the small singular values, so it is far below ``effective_rank`` for most maps.
    Null models: n for a permutation of n, 1 for a uniform map.
    """
    values = spectrum(matrix).values
    return values.square().sum(-1) / values[..., 0].square()


def rank_residual(hidden: Tensor, mask: Tensor | None = None, norm: str = "frobenius") -> Tensor:
    """Relative distance to identical rows, ‖X − 1x̄ᵀ‖ / ‖X‖ with x̄ the mean row: (..., tokens, width) → (...).

    0: all tokens are the same; with the Frobenius norm it is 1 at most. mask: (..., tokens), True for the tokens that
    count; padding is left out of the mean and of the norms. norm: "frobenius", or "composite" for √(‖·‖₁ ‖·‖∞) with
    the greatest column sum and the greatest row sum of absolute values, the norm of the theorem. x̄ is the nearest row
    in the Frobenius norm; in the composite norm it need not be, and the value bounds the distance from above.
    Computed in float64; the result is float64 if ``hidden`` is, else float32. Rounding of float32 states shows as a
    floor near 1e-7: run the model in float64 to see less. States of zeros have no value: NaN.

    Null model: independent Gaussian states (``nulls.null_states``) have √(1 − 1/tokens) on average, nearly 1.
    Source: Dong et al. 2021 (arXiv 2103.03404), section 2. Raises ValueError for shapes that do not fit.
    """
    if norm not in ("frobenius", "composite"):
        raise ValueError(f'norm must be "frobenius" or "composite", got {norm!r}')
    states = _numbers(hidden, "hidden", finite=mask is None)
    if states.ndim < 2 or 0 in states.shape[-2:]:
        raise ValueError(f"states (..., tokens, width) are needed, got the shape {tuple(states.shape)}")
    if mask is not None:
        states, mask = _without_padding(states, mask)
    mean = states.mean(-2, keepdim=True) if mask is None else states.sum(-2, keepdim=True) / mask.sum(-2, keepdim=True)
    residual = states - mean if mask is None else (states - mean) * mask
    size = _frobenius if norm == "frobenius" else _composite
    return (size(residual) / size(states)).to(hidden.dtype if hidden.dtype == torch.float64 else torch.float32)


def _without_padding(states: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """States with zeros for padding, and the mask as (..., tokens, 1)."""
    mask = torch.as_tensor(mask, device=states.device).bool()
    if mask.shape != states.shape[-1 - mask.ndim : -1]:
        raise ValueError(
            f"mask must have an entry for each token, {tuple(states.shape[:-1])}, got {tuple(mask.shape)}: "
            "give the attention_mask of the batch"
        )
    if not mask.any(-1).all():
        raise ValueError("a text without any token is left by the mask: take it out of the batch")
    states = states.masked_fill(~mask[..., None], 0.0)
    if not torch.isfinite(states).all():
        raise ValueError("hidden holds NaN or infinity in tokens that count: look where the model produces them")
    return states, mask[..., None]


def _frobenius(matrix: Tensor) -> Tensor:
    return torch.linalg.matrix_norm(matrix)


def _composite(matrix: Tensor) -> Tensor:
    sizes = matrix.abs()
    return (sizes.sum(-2).amax(-1) * sizes.sum(-1).amax(-1)).sqrt()


def _powers(matrix: Tensor | Spectrum, power: int) -> Tensor:
    if power not in (1, 2):
        raise ValueError(f"power must be 1 (sum of singular values) or 2 (sum of their squares), got {power!r}")
    return spectrum(matrix).values ** power


def _numbers(tensor: Tensor, name: str, *, finite: bool = True) -> Tensor:
    """The tensor in float64. Raises TypeError or ValueError for what holds no real, finite numbers."""
    if not isinstance(tensor, Tensor) or tensor.is_complex():
        given = f"{tensor.dtype}" if isinstance(tensor, Tensor) else type(tensor).__name__
        raise TypeError(f"{name} must be a tensor of real numbers, got {given}: torch.as_tensor makes one of an array")
    if finite and not torch.isfinite(tensor).all():
        raise ValueError(f"{name} holds NaN or infinity: look where the model or the mask produces them")
    return tensor.detach().double()
