"""Attention alone, to any precision: how fast tokens become equal without skip connection, MLP and LayerNorm.

Models and shapes as in ``utils.rank_collapse``. Source of the question: Dong et al. 2021 (arXiv 2103.03404).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import linear
from transformers import PreTrainedModel

from utils.rank_collapse import apart, fitting, layers_of, split_heads


@torch.no_grad()
def pure_attention(model: PreTrainedModel, hidden: Tensor) -> tuple[Tensor, Tensor]:
    """States of attention alone (no skip, MLP or norm), each kept as a common row and what tells tokens apart.

    Returns (layers + 1, texts, 1, width) and (layers + 1, texts, n, width); their sum is ``states`` with everything
    off. Rounding does not end it at 1e-16 of the states: scores are split into a part that all queries share and one
    of second order in the deviations, e, and P − p = p (expm1(e) − mean) / (1 + mean) has full precision.
    """
    hidden = fitting(model, hidden)
    common = [hidden.mean(-2, keepdim=True)]
    deviations = [hidden - common[0]]
    for layer in layers_of(model):
        own, dense = layer.attention.self, layer.attention.output.dense
        plain = [split_heads(own, linear(deviations[-1], part.weight)) for part in (own.query, own.key, own.value)]
        queries, keys, values = plain
        size = own.attention_head_size**0.5
        shared = split_heads(own, own.query(common[-1])) @ keys.mT / size  # scores that all queries have in common
        differ = _difference(shared, queries @ keys.mT / size) @ values
        middle = split_heads(own, own.value(common[-1])) + shared.softmax(-1) @ values
        differ, middle = (part.transpose(-3, -2).flatten(-2) for part in (differ, middle))
        moved = linear(differ, dense.weight)
        common.append(dense(middle) + moved.mean(-2, keepdim=True))
        deviations.append(apart(moved))
    return torch.stack(common), torch.stack(deviations)


def log_distance(deviation: Tensor) -> Tensor:
    """log₁₀ of the Frobenius norm, also where squares are too small for float64: (…, n, width) → (…); −∞ for zeros."""
    largest = deviation.abs().amax((-2, -1), keepdim=True)
    scaled = torch.linalg.matrix_norm(torch.where(largest > 0, deviation / largest, 0.0))
    return scaled.log10() + largest[..., 0, 0].log10()


def bound(layer: nn.Module, radius: float) -> float:
    """An upper bound for what pure attention leaves of the distance between tokens, in one layer.

    radius: greatest length of a row of X − 1x̄, with x̄ the mean row. Returns what it is at most after the layer: the
    sum over heads of 2 ‖W_V W_O‖ · radius · (e^s − 1) with s = 2 radius² ‖W_Q W_Kᵀ‖ / √d_h and spectral norms. Where s
    is small this is cubic in the radius. Derived in chapter 7; the theorem of Dong et al. 2021 has the same form, with
    other norms.
    """
    own, dense = layer.attention.self, layer.attention.output.dense
    size = own.attention_head_size
    query, key, value = (part.weight.unflatten(0, (-1, size)) for part in (own.query, own.key, own.value))
    output = dense.weight.T.unflatten(0, (-1, size))
    total = 0.0
    for scores, moved in zip(_product_norm(query, key), _product_norm(value, output), strict=True):
        exponent = 2 * radius**2 * float(scores) / size**0.5
        total += 2 * float(moved) * radius * (math.expm1(exponent) if exponent < 700 else math.inf)
    return total


def _product_norm(a: Tensor, b: Tensor) -> Tensor:
    """Spectral norms of aᵀ b, head by head: (heads, d_head, width) twice → (heads,)."""
    triangles = [torch.linalg.qr(part.detach().mT).R for part in (a, b)]
    return torch.linalg.matrix_norm(triangles[0] @ triangles[1].mT, 2)


def _difference(shared: Tensor, second: Tensor) -> Tensor:
    """P − p with p = softmax(shared), shared (…, 1, n), and P = softmax(shared + second), second (…, n, n).

    To full relative precision where ``second`` is small.
    """
    p, grown = shared.softmax(-1), second.clamp(-1, 1).expm1()
    mean = (p * grown).sum(-1, keepdim=True)
    precise = p * (grown - mean) / (1 + mean)
    return torch.where(second.abs().amax(-1, keepdim=True) < 1, precise, (shared + second).softmax(-1) - p)
