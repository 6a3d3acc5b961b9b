"""What the weights W_Q and W_K allow: are the scores of a head symmetric, and how far are they from it?

Every function names its null model: the value that a head without structure would give.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from utils.architectures import CROSS

MAX_BYTES = 2**30
FAMILIES = "BERT, DistilBERT, GPT-2, Llama, BART, Marian, T5 and the book's translator"
PROJECTIONS = (("query", "key"), ("q_lin", "k_lin"), ("q_proj", "k_proj"), ("q", "k"))
HEAD_SIZE = ("attention_head_size", "head_dim", "key_value_proj_dim", "d_head")
HEADS = ("num_attention_heads", "n_heads", "num_heads", "heads")


class QueryKey(NamedTuple):
    """Projections of one layer for rows X: Q = X w_q + b_q, K = X w_k + b_k, scores Q Kᵀ / √d_head (T5: no √d_head).

    w_q, w_k: (heads, width, d_head); b_q, b_k: (heads, d_head), zeros where the model has no bias. In grouped-query
    models the key projection of a group stands once for each of its query heads.
    """

    w_q: Tensor
    w_k: Tensor
    b_q: Tensor
    b_k: Tensor


def query_key_weights(model: nn.Module) -> list[QueryKey]:
    """The query and key projections of each layer's self-attention, in float32; of an encoder–decoder, its encoder's.

    X is what the attention reads: in models that normalise before attention (GPT-2, Llama, T5, the translator) X
    comes after the layer norm. Rotary positions (Llama) and position biases (T5, translator) act on the scores
    besides. Raises ValueError for a model whose projections are not found.
    """
    root = model
    if getattr(getattr(model, "config", None), "is_encoder_decoder", False):
        root = model.get_encoder()
    found = []
    for name, module in root.named_modules():
        projections = _projections(module)
        if projections and not any(word in name for word in CROSS):
            found.append(_split(module, projections, model.config))
    if not found:
        raise ValueError(f"{type(model).__name__}: no query and key projections found; supported are {FAMILIES}")
    return found


def query_key_products(model: nn.Module) -> Tensor:
    """M = W_Q W_Kᵀ of every head: (layers, heads, width, width), so that scores are X M Xᵀ / √d_head without biases.

    The null model is a product of random projections: no preference for symmetry (``symmetry_score`` about 0).
    Raises ValueError above 1 GiB: multiply ``query_key_weights`` layer by layer then.
    """
    layers = query_key_weights(model)
    heads, width, _ = layers[0].w_q.shape
    needed = 4 * len(layers) * heads * width**2
    if needed > MAX_BYTES:
        raise ValueError(
            f"{len(layers)} layers of {heads} products {width} × {width} need {needed / 1e9:.1f} GB: "
            "take query_key_weights(model) and multiply layer by layer"
        )
    return torch.stack([layer.w_q @ layer.w_k.mT for layer in layers])


def symmetry_score(matrix: Tensor) -> Tensor:
    """s = (‖S‖² − ‖N‖²) / ‖M‖² with S, N the symmetric and antisymmetric part: (..., n, n) → (...).

    +1 symmetric, −1 antisymmetric. Null model: independent random entries, and products of two independent random
    projections of the same width n, have the mean 1/n and the spread √2/n. A matrix of zeros has no score: NaN.
    Source: the symmetry score of Saponati et al. 2025 (arXiv 2502.10927).
    """
    matrix = square(matrix).double()
    return ((matrix * matrix.mT).sum((-2, -1)) / (matrix**2).sum((-2, -1))).float()


def relative_asymmetry(matrix: Tensor) -> Tensor:
    """‖(M − Mᵀ)/2‖ / ‖M‖ in [0, 1]: (..., n, n) → (...). 0 symmetric, 1 antisymmetric; s = 1 − 2·(this)².

    Null model: independent random entries give 0.71. A map of near-uniform rows is near 0 whatever the head does.
    """
    matrix = square(matrix).double()
    return (((matrix - matrix.mT) / 2).square().sum((-2, -1)).sqrt() / matrix.square().sum((-2, -1)).sqrt()).float()


def double_centered(scores: Tensor) -> Tensor:
    """Scores without their row means and column means: (..., n, m) → the same shape.

    A row mean does not change the softmax; a column mean is how much a key is read by all. Both make raw scores look
    symmetric even with random weights, so compare symmetry only after this. Null model: random weights score near 0.
    """
    rows, columns = scores.mean(-1, keepdim=True), scores.mean(-2, keepdim=True)
    return scores - rows - columns + scores.mean((-2, -1), keepdim=True)


def square(matrix: Tensor) -> Tensor:
    """The matrix itself. Raises ValueError unless it is (..., n, n)."""
    if matrix.ndim < 2 or matrix.shape[-1] != matrix.shape[-2]:
        raise ValueError(f"a square matrix (..., n, n) is needed, got the shape {tuple(matrix.shape)}")
    return matrix


def _projections(module: nn.Module) -> tuple[nn.Module, ...]:
    """The modules that hold a module's query and key weights, empty if it is no attention."""
    for names in PROJECTIONS:
        pair = tuple(getattr(module, name, None) for name in names)
        if all(isinstance(getattr(each, "weight", None), Tensor) and each.weight.ndim == 2 for each in pair):
            return pair
    fused = getattr(module, "c_attn", None)  # GPT-2: queries, keys and values in one matrix (width, 3 · width)
    return (fused,) if isinstance(getattr(fused, "weight", None), Tensor) else ()


def _split(module: nn.Module, projections: tuple[nn.Module, ...], config) -> QueryKey:
    """The projections of one module by head."""
    if len(projections) == 1:
        weight, bias = projections[0].weight.detach().float(), projections[0].bias.detach().float()
        (weights_q, weights_k, _), (bias_q, bias_k, _) = weight.chunk(3, dim=1), bias.chunk(3)
    else:
        weights_q, weights_k = (each.weight.detach().float().T for each in projections)
        bias_q, bias_k = (_bias(each) for each in projections)
    size = next((getattr(module, name) for name in HEAD_SIZE if isinstance(getattr(module, name, None), int)), None)
    if size is None:
        count = next((getattr(each, name) for each in (module, config) for name in HEADS if hasattr(each, name)), None)
        if not count:
            raise ValueError(f"{type(module).__name__} does not say how many heads it has; supported are {FAMILIES}")
        size = weights_q.shape[1] // count
    w_q, w_k = (each.unflatten(1, (-1, size)).transpose(0, 1) for each in (weights_q, weights_k))
    b_q, b_k = (each.unflatten(0, (-1, size)) for each in (bias_q, bias_k))
    repeat = len(w_q) // len(w_k)
    return QueryKey(w_q, w_k.repeat_interleave(repeat, 0), b_q, b_k.repeat_interleave(repeat, 0))


def _bias(projection: nn.Module) -> Tensor:
    bias = getattr(projection, "bias", None)
    return projection.weight.new_zeros(projection.weight.shape[0]).float() if bias is None else bias.detach().float()
