"""Numbers about attention: what the weights W_Q and W_K allow, and what a map does with them.

Every function names its null model: the value that a head without structure would give. Rows of a map are queries
(who reads), columns are keys (who is read).
"""

from __future__ import annotations

from typing import NamedTuple

import pandas as pd
import torch
from torch import Tensor, nn

MAX_BYTES = 2**30
FAMILIES = "BERT, DistilBERT, GPT-2, Llama, BART, Marian, T5 and the book's translator"
CROSS = ("cross", "encoder_attn", "EncDecAttention")  # in the names of modules that read another text
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
    matrix = _square(matrix).double()
    return ((matrix * matrix.mT).sum((-2, -1)) / (matrix**2).sum((-2, -1))).float()


def relative_asymmetry(matrix: Tensor) -> Tensor:
    """‖(M − Mᵀ)/2‖ / ‖M‖ in [0, 1]: (..., n, n) → (...). 0 symmetric, 1 antisymmetric; s = 1 − 2·(this)².

    Null model: independent random entries give 0.71. A map of near-uniform rows is near 0 whatever the head does.
    """
    matrix = _square(matrix).double()
    return (((matrix - matrix.mT) / 2).square().sum((-2, -1)).sqrt() / matrix.square().sum((-2, -1)).sqrt()).float()


def double_centered(scores: Tensor) -> Tensor:
    """Scores without their row means and column means: (..., n, m) → the same shape.

    A row mean does not change the softmax; a column mean is how much a key is read by all. Both make raw scores look
    symmetric even with random weights, so compare symmetry only after this. Null model: random weights score near 0.
    """
    rows, columns = scores.mean(-1, keepdim=True), scores.mean(-2, keepdim=True)
    return scores - rows - columns + scores.mean((-2, -1), keepdim=True)


def entropy(weights: Tensor) -> Tensor:
    """−Σ p ln p of each row, in nats: (..., queries, keys) → (..., queries). Null model: uniform gives ln(keys)."""
    return torch.special.entr(weights).sum(-1)


def normalized_entropy(weights: Tensor, *, causal: bool = False) -> Tensor:
    """Entropy of each row over its highest value, ln(readable keys): (..., queries, keys) → (..., queries), in [0, 1].

    causal: query i reads keys 0 to i only. A row with one readable key has no choice: NaN. Null model: uniform gives 1.
    """
    queries, keys = weights.shape[-2:]
    readable = torch.full((queries,), float(keys), device=weights.device)
    if causal:
        readable = (torch.arange(queries, device=weights.device) + 1.0).clamp(max=keys)
    return torch.where(readable > 1, entropy(weights) / readable.log(), torch.nan)


def attention_distance(weights: Tensor) -> Tensor:
    """Mean distance |query − key| in tokens, weighted by each row: (..., n, n) → (..., n).

    Null model: uniform weights over n tokens give (n² − 1) / 3n on average, about a third of the text.
    """
    position = torch.arange(_square(weights).shape[-1], device=weights.device)
    return (weights * (position - position[:, None]).abs()).sum(-1)


def offset_profile(weights: Tensor, offsets: tuple[int, ...] = (-3, -2, -1, 0, 1, 2, 3)) -> Tensor:
    """Share of all weight on keys at a fixed offset from the query: (..., n, n) → (..., offsets).

    Offset −1 is the token before. A query without a key at an offset counts as 0, so the shares over all offsets sum
    to 1. Null model: uniform weights give (n − |offset|) / n².
    """
    n = _square(weights).shape[-1]
    zero = weights.new_zeros(weights.shape[:-2])
    shares = [weights.diagonal(o, -2, -1).sum(-1) / n if abs(o) < n else zero for o in offsets]
    return torch.stack(shares, dim=-1)


def sink_share(weights: Tensor, special: Tensor) -> Tensor:
    """Mean share of weight on special keys, read by ordinary queries: (..., n, n) and mask (n,) → (...).

    A sink is where weight goes that has nowhere to go; it says nothing about the importance of the token.
    Null model: uniform weights give the share of special tokens. Source: Clark et al. 2019 (arXiv 1906.04341), §3.2.
    """
    special = torch.as_tensor(special, dtype=torch.bool, device=weights.device)
    if special.shape != _square(weights).shape[-1:]:
        raise ValueError(f"special must be a mask of {weights.shape[-1]} tokens, got the shape {tuple(special.shape)}")
    if special.all():
        raise ValueError("all tokens are special: no ordinary query is left to average over")
    return weights[..., ~special, :][..., special].sum(-1).mean(-1)


def argmax_offset_share(weights: Tensor) -> tuple[Tensor, Tensor]:
    """The most frequent offset of a row's greatest weight, and its share of the rows: (..., n, n) → (...), (...).

    Null model: uniform or random weights give a share near 1/n. Source: the positional criterion of Voita et al. 2019
    (arXiv 1905.09418), section 5.1, who ask for 0.9.
    """
    n = _square(weights).shape[-1]
    offsets = weights.argmax(-1) - torch.arange(n, device=weights.device)
    counts = torch.stack([(offsets == each).sum(-1) for each in range(1 - n, n)], dim=-1)
    highest = counts.max(-1)
    return highest.indices - (n - 1), highest.values / n


def positional_heads(frame: pd.DataFrame, share: float = 0.9) -> pd.DataFrame:
    """The rows of ``head_statistics`` whose greatest weight falls on the token before or after in ``share`` of rows.

    Null model: no head of an untrained model passes. Source: Voita et al. 2019 (arXiv 1905.09418), section 5.1.
    """
    return frame[(frame["best_offset"].abs() == 1) & (frame["best_offset_share"] >= share)]


def roles(frame: pd.DataFrame, share: float = 0.9, sink: float = 0.5) -> pd.Series:
    """A label for each row of ``head_statistics``, by offset and sink rules only.

    "previous token", "next token", "same token": the greatest weight among ordinary keys falls there in ``share`` of
    rows; else "sink": more than ``sink`` of the weight lies on special tokens; else "unlabelled".
    Null model: all heads of an untrained model are unlabelled.
    """
    names = {-1: "previous token", 1: "next token", 0: "same token"}
    labels = frame["best_offset"].map(names).where(frame["best_offset_share"] >= share)
    labels = labels.where(labels.notna(), frame["sink_share"].gt(sink).map({True: "sink", False: "unlabelled"}))
    return labels.rename("role")


def _square(matrix: Tensor) -> Tensor:
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
