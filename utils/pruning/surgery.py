"""Remove the weights of heads: on a copy, in original numbers.

A head is its rows of W_Q, W_K, W_V (with their biases), its columns of W_O, and its row of a relative bias. What is
left computes exactly what the whole model computes with the head's gate at 0.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.nn import functional

from utils.architectures import KEPT, Attention, Left, attentions, is_conv1d
from utils.heads.gates import GateHook
from utils.heads.names import Head, is_of, resolve

BESIDE = "relative_bias"  # in the layer around an attention: a table of biases, one row a head
GROUPS = "num_key_value_groups"  # where an attention notes how many query heads share a key/value head


def prune(model: nn.Module, heads: Iterable) -> nn.Module:
    """A copy of ``model`` without the weights of these heads; the model itself stays as it is.

    heads: ``Head`` or tuples, by their original numbers; those that were removed before change nothing. All heads of a
    layer may go: what remains is the bias of its output projection. The copy gates, scores, generates and prunes
    again; it has no gates of scopes around the call, and no gradients.

    Grouped queries: a key/value head goes when all its query heads went. If the rest are uneven groups, keys and
    values are repeated for each query head, without extra weights, and a cache then holds one key and one value per
    query head and not per group.
    Save it with ``save_pruned``: its shapes are not those that its config describes.
    Raises TypeError or ValueError for heads that do not exist, and for a model whose heads share weights (T5).
    """
    gone = resolve(model, heads)
    for each in attentions(model):
        if not each.layout.removable and any(is_of(each, head) for head in gone):
            raise ValueError(
                f"the heads of {type(model).__name__} ({type(each.module).__name__}) cannot be removed: one table of "
                "position biases, a row a head, is shared by all its layers. Gate them instead: "
                "gated(model, {head: 0.0 for head in heads}), or pruning_curve(…, remove=False)"
            )
    with torch.inference_mode(False):  # weights that were made in that mode could not be tuned
        pruned = copy.deepcopy(model)
        pruned.zero_grad(set_to_none=True)
        _drop_gates(pruned)
        for each in attentions(pruned):
            _remove(pruned, each, {head.head for head in gone if is_of(each, head)})
    return pruned


def removed(model: nn.Module) -> list[Head]:
    """The heads that ``prune`` took out of a model, in original numbers."""
    return [
        Head(each.layer, head, each.kind)
        for each in attentions(model)
        for head in range(each.all_heads)
        if head not in each.heads
    ]


class Nothing(nn.Module):
    """Takes the place of the projections of an attention without heads: zeros for one head, without weights."""

    def __init__(self, width: int):
        super().__init__()
        self.width = width

    def forward(self, x: Tensor) -> Tensor:
        return x.new_zeros(*x.shape[:-1], self.width)


class _Linear(nn.Linear):
    """A linear layer made of given weights (out, in) and bias (out,) or None."""

    def __init__(self, weight: nn.Parameter, bias: nn.Parameter | None):
        nn.Module.__init__(self)
        self.out_features, self.in_features = weight.shape
        self.weight = weight
        self.register_parameter("bias", bias)


class OnlyBias(_Linear):
    """The output projection of an attention without heads: weight (width, 0). Whatever comes in, its bias goes out."""

    def forward(self, x: Tensor) -> Tensor:
        return functional.linear(x[..., :0], self.weight, self.bias)


class Repeated(_Linear):
    """A key or value projection of which several query heads read the same head, in uneven groups."""

    def __init__(self, weight: nn.Parameter, bias: nn.Parameter | None, reads: list[int], size: int):
        super().__init__(weight, bias)
        self.reads, self.size = reads, size

    def forward(self, x: Tensor) -> Tensor:
        """(…, width) → (…, query heads · size)"""
        return super().forward(x).unflatten(-1, (-1, self.size))[..., self.reads, :].flatten(-2)


def _drop_gates(model: nn.Module) -> None:
    for module in model.modules():
        for key, hook in list(module._forward_pre_hooks.items()):
            if isinstance(hook, GateHook):
                del module._forward_pre_hooks[key]


def _remove(model: nn.Module, attention: Attention, gone: set[int]) -> None:
    places = [i for i, head in enumerate(attention.heads) if head not in gone]
    if len(places) == len(attention.heads):
        return
    left = tuple(attention.heads[i] for i in places)
    module, layout = attention.module, attention.layout
    _keep_inputs(attention.output, places, attention.size)
    if not left:
        _empty(attention)
    elif layout.fused:
        count = len(attention.heads)
        _keep_outputs(attention.value, [part * count + i for part in range(3) for i in places], attention.size)
    else:
        _keep_outputs(attention.query, places, attention.size)
        _keep_shared(attention, left)
    for path in layout.counts:
        _set(module, path, max(len(left), 1))
    for path in layout.widths:
        _set(module, path, max(len(left), 1) * attention.size)
    layer = model.get_submodule(attention.name.rpartition(".")[0])
    bias = getattr(layer, BESIDE, None) if layer is not module else None
    if bias is not None:
        bias.weight = _parameter(bias.weight, bias.weight[places])
        setattr(layer, BESIDE, bias if left else None)
    setattr(module, KEPT, Left(left, attention.all_heads, attention.groups))


def _keep_shared(attention: Attention, left: tuple[int, ...]) -> None:
    """Keys and values: a head of them stays while a query head reads it."""
    stored = sorted({attention.groups[head] for head in attention.heads})
    kept = sorted({attention.groups[head] for head in left})
    readers = Counter(attention.groups[head] for head in left)
    even = len(set(readers.values())) == 1
    for path in (attention.layout.key, attention.layout.value):
        projection = attention.module.get_submodule(path)
        _keep_outputs(projection, [stored.index(group) for group in kept], attention.size)
        reads = [kept.index(attention.groups[head]) for head in left]
        if not even:
            _set(attention.module, path, Repeated(projection.weight, projection.bias, reads, attention.size))
        elif isinstance(projection, Repeated):
            _set(attention.module, path, _Linear(projection.weight, projection.bias))
    if hasattr(attention.module, GROUPS):
        setattr(attention.module, GROUPS, readers[kept[0]] if even else 1)


def _empty(attention: Attention) -> None:
    """No head is left: one that is all zeros, without weights, keeps shapes, masks and caches going."""
    layout, module = attention.layout, attention.module
    for path in {layout.query, layout.key, layout.value}:
        _set(module, path, Nothing(attention.size * (3 if layout.fused else 1)))
    output = attention.output
    weight = output.weight.T if is_conv1d(output) else output.weight
    _set(module, layout.output, OnlyBias(_parameter(output.weight, weight), output.bias))
    if hasattr(module, GROUPS):
        setattr(module, GROUPS, 1)


def _keep_outputs(projection: nn.Module, places: list[int], size: int) -> None:
    """Only these blocks of ``size`` numbers go out of a projection."""
    index = _index(places, size, projection.weight)
    axis = 1 if is_conv1d(projection) else 0
    projection.weight = _parameter(projection.weight, projection.weight.index_select(axis, index))
    if projection.bias is not None:
        projection.bias = _parameter(projection.bias, projection.bias[index])
    setattr(projection, "nf" if axis else "out_features", len(index))


def _keep_inputs(projection: nn.Module, places: list[int], size: int) -> None:
    """Only these blocks of ``size`` numbers go into a projection."""
    index = _index(places, size, projection.weight)
    axis = 0 if is_conv1d(projection) else 1
    projection.weight = _parameter(projection.weight, projection.weight.index_select(axis, index))
    setattr(projection, "in_features" if axis else "nx", len(index))


def _index(places: list[int], size: int, like: Tensor) -> Tensor:
    blocks = torch.tensor(places, dtype=torch.long, device=like.device)
    return (blocks[:, None] * size + torch.arange(size, device=like.device)).flatten()


def _parameter(old: nn.Parameter, values: Tensor) -> nn.Parameter:
    return nn.Parameter(values.detach().clone(memory_format=torch.contiguous_format), requires_grad=old.requires_grad)


def _set(module: nn.Module, path: str, value: object) -> None:
    parent, _, name = path.rpartition(".")
    setattr(module.get_submodule(parent), name, value)
