"""A stack of attention layers taken apart: its states with skip, MLP and LayerNorm switched, and its output by paths.

Shapes: hidden (texts, n, width), weights (texts, heads, n, n). Models are encoders of the BERT family, whose layers are
X ← norm(X + attention(X)), X ← norm(X + MLP(X)); ``states`` recomputes them from the modules' own weights, in the
model's dtype. Texts have one length: there is no padding. Source of the question: Dong et al. 2021 (arXiv 2103.03404).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import linear
from transformers import PreTrainedModel

Edit = Callable[[int, Tensor], Tensor]  # layer, weights (texts, heads, n, n) → weights of the same shape


class Paths(NamedTuple):
    """The output of a network of attention and skip connections as a sum; all parts (…, texts, n, width).

    by_length[k]: what came along paths through k attention layers. constant: what biases brought. Their sum is the
    output: ``by_length.sum(0) + constant``.
    """

    by_length: Tensor
    constant: Tensor


@torch.no_grad()
def embedded(model: PreTrainedModel, ids: Tensor) -> Tensor:
    """The states that the first layer reads: token ids (texts, n) → (texts, n, width)."""
    layers_of(model)
    return model.embeddings(input_ids=ids)


@torch.no_grad()
def states(
    model: PreTrainedModel,
    hidden: Tensor,
    *,
    skip: bool = True,
    mlp: bool = True,
    norm: bool = True,
    edit: Edit | None = None,
    layers: Sequence[int] | None = None,
) -> Tensor:
    """States before the first and after each layer, with parts of every layer left out: (layers + 1, texts, n, width).

    hidden: what the first layer reads. skip: whether a block's input is added to its output; mlp, norm: whether the
    MLP and the LayerNorms are there. edit: changes the weights of a layer before they are used (masks, sinks).
    layers: which to run, in this order, all by default.
    With everything on these are the model's own hidden states. Raises ValueError for states or layers that do not fit.
    """
    found = [fitting(model, hidden)]
    for index, layer in _chosen(model, layers):
        x = found[-1]
        y = _mixed(layer, x, maps(layer, x, index, edit))
        x = x + y if skip else y
        x = layer.attention.output.LayerNorm(x) if norm else x
        if mlp:
            y = layer.output.dense(layer.intermediate(x))
            x = x + y if skip else y
            x = layer.output.LayerNorm(x) if norm else x
        found.append(x)
    return torch.stack(found)


def blocks(layer: nn.Module) -> tuple[Callable[[Tensor], Tensor], ...]:
    """Attention, MLP and the two LayerNorms of one layer, as four functions of states (texts, n, width)."""

    def attention(x: Tensor) -> Tensor:
        return _mixed(layer, x, maps(layer, x))

    def feed_forward(x: Tensor) -> Tensor:
        return layer.output.dense(layer.intermediate(x))

    return attention, feed_forward, layer.attention.output.LayerNorm, layer.output.LayerNorm


def maps(layer: nn.Module, hidden: Tensor, index: int = 0, edit: Edit | None = None) -> Tensor:
    """The attention weights of one layer for the states it reads: (texts, n, width) → (texts, heads, n, n)."""
    own = layer.attention.self
    queries, keys = split_heads(own, own.query(hidden)), split_heads(own, own.key(hidden))
    weights = (queries @ keys.mT / own.attention_head_size**0.5).softmax(-1)
    return weights if edit is None else edit(index, weights)


@torch.no_grad()
def paths(model: PreTrainedModel, hidden: Tensor, *, norm: bool = False, edit: Edit | None = None) -> Paths:
    """The output of ``states(…, mlp=False)`` as a sum over paths, by the number of attention layers they pass.

    Each layer adds attention to its input, so the product over layers of (1 + attention) has a term for every choice
    of layers: a path. With the weights of each layer held at what they are for this text, a layer is linear and the
    sum is exact. norm: with LayerNorms, each held at the standard deviation that it measured. Source: the path
    decomposition of Dong et al. 2021, here by length and with skip connections.
    """
    whole = fitting(model, hidden)
    parts = whole.new_zeros(len(layers_of(model)) + 2, *whole.shape)  # the last one holds the constants
    parts[0] = whole
    for index, layer in enumerate(layers_of(model)):
        weights = maps(layer, whole, index, edit)
        moved = _mixed(layer, parts, weights, bias=False)
        parts[1:-1] += moved[:-2]
        parts[-1] += moved[-1] + (_mixed(layer, whole, weights) - _mixed(layer, whole, weights, bias=False))
        if norm:
            parts = _normalised(layer.attention.output.LayerNorm, parts)
        whole = parts.sum(0)
    return Paths(parts[:-1], parts[-1])


def share(part: Tensor, whole: Tensor) -> Tensor:
    """How much of a sum a part of it is, ⟨part, whole⟩ / ‖whole‖²: (…, texts, n, width) → (…, texts).

    The shares of all parts sum to 1; a part that points against the whole counts below 0.
    """
    return (part * whole).sum((-2, -1)) / whole.square().sum((-2, -1))


def apart(hidden: Tensor) -> Tensor:
    """What tells tokens apart, X − 1x̄ with x̄ the mean row: (…, n, width) → the same shape."""
    return hidden - hidden.mean(-2, keepdim=True)


def distance(hidden: Tensor) -> Tensor:
    """‖X − 1x̄‖, the distance to identical rows before it is divided by ‖X‖: (…, n, width) → (…)."""
    return torch.linalg.matrix_norm(apart(hidden))


@torch.no_grad()
def spread(
    model: PreTrainedModel, ids: Tensor, changed: Tensor, *, edit: Edit | None = None, **switches: bool
) -> Tensor:
    """How far a changed token moves the others: ids, changed (texts, n), equal but for one place → (layers + 1, texts).

    The mean over all other places, the first and the last ([CLS], [SEP]) left out, of ‖change of state‖ / ‖state‖.
    switches: as in ``states``. Raises ValueError where the two differ in more or fewer places than one.
    """
    differs = ids != changed
    if ids.shape != changed.shape or not bool((differs.sum(-1) == 1).all()):
        raise ValueError("ids and changed must differ in exactly one place of each text")
    before, after = (states(model, embedded(model, each), edit=edit, **switches) for each in (ids, changed))
    moved = (after - before).norm(dim=-1) / before.norm(dim=-1)
    others = ~differs
    others[:, [0, -1]] = False
    return (moved * others).sum(-1) / others.sum(-1)


def masked(allowed: Tensor) -> Edit:
    """An edit after which queries read allowed keys only: mask (n, n) or (n,); what is left of a row sums to 1 again.

    The same as setting the scores of other keys to −∞. Raises ValueError for a mask that leaves a query nothing.
    """
    allowed = torch.as_tensor(allowed, dtype=torch.bool)
    if allowed.ndim not in (1, 2) or not allowed.any(-1).all():
        raise ValueError(
            f"a mask (n, n) or (n,) that leaves every query a key is needed, got the shape {tuple(allowed.shape)}"
        )

    def edit(_layer: int, weights: Tensor) -> Tensor:
        kept = weights * allowed
        return kept / kept.sum(-1, keepdim=True)

    return edit


def _chosen(model: PreTrainedModel, wanted: Sequence[int] | None) -> list[tuple[int, nn.Module]]:
    layers = layers_of(model)
    wanted = range(len(layers)) if wanted is None else wanted
    if wrong := [each for each in wanted if each not in range(len(layers))]:
        raise ValueError(f"layer {wrong[0]!r} does not exist: the model has layers 0 to {len(layers) - 1}")
    return [(index, layers[index]) for index in wanted]


def layers_of(model: PreTrainedModel) -> nn.ModuleList:
    try:
        layers = model.encoder.layer
        layers[0].attention.output.LayerNorm, layers[0].attention.self.query, layers[0].output.LayerNorm  # noqa: B018
    except (AttributeError, TypeError, IndexError):
        raise TypeError(
            f"{type(model).__name__} has no layers as BERT has them (encoder.layer[i].attention.self.query): "
            'use an encoder of that family, for example load("minilm").model'
        ) from None
    return layers


def fitting(model: PreTrainedModel, hidden: Tensor) -> Tensor:
    layers_of(model)
    width = model.config.hidden_size
    if not isinstance(hidden, Tensor) or hidden.ndim != 3 or hidden.shape[-1] != width:
        given = tuple(hidden.shape) if isinstance(hidden, Tensor) else type(hidden).__name__
        raise ValueError(f"states (texts, n, {width}) are needed, got {given}: embedded(model, ids) makes them")
    return hidden.to(model.dtype)


def split_heads(own: nn.Module, rows: Tensor) -> Tensor:
    """(…, n, width) → (…, heads, n, d_head)."""
    return rows.unflatten(-1, (own.num_attention_heads, own.attention_head_size)).transpose(-3, -2)


def _mixed(layer: nn.Module, hidden: Tensor, weights: Tensor, *, bias: bool = True) -> Tensor:
    """What attention makes of the states, before skip connection and norm; without biases it is linear in them."""
    value, output = layer.attention.self.value, layer.attention.output.dense
    values = split_heads(layer.attention.self, linear(hidden, value.weight, value.bias if bias else None))
    joined = (weights @ values).transpose(-3, -2).flatten(-2)
    return linear(joined, output.weight, output.bias if bias else None)


def _normalised(norm: nn.LayerNorm, parts: Tensor) -> Tensor:
    """LayerNorm of a sum, part by part, at the standard deviation of the sum; its bias goes to the last part."""
    variance = parts.sum(0).var(-1, correction=0, keepdim=True)
    scaled = (parts - parts.mean(-1, keepdim=True)) / (variance + norm.eps).sqrt() * norm.weight
    scaled[-1] += norm.bias
    return scaled
