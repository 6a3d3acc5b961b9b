"""Heads by their original numbers, checked against a model."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral
from typing import NamedTuple

from torch import nn

from utils.architectures import Attention, attentions


class Head(NamedTuple):
    """One head by its original numbers, counted from 0. Without a kind: of the only kind of attention of a model."""

    layer: int
    head: int
    kind: str | None = None


def heads_of(model: nn.Module) -> list[Head]:
    """The heads that a model still has: encoder, decoder, cross-attention, each layer by layer.

    Raises ValueError for an architecture that is not supported, naming those that are.
    """
    return [Head(each.layer, head, each.kind) for each in attentions(model) for head in each.heads]


def resolve(model: nn.Module, heads: Iterable) -> list[Head]:
    """The given heads (``Head`` or tuples), checked, with their kind, without duplicates, in their order.

    Heads that were removed before are fine. Raises TypeError or ValueError, with the valid range, for others.
    """
    if isinstance(heads, Head):
        heads = [heads]
    if isinstance(heads, str) or not isinstance(heads, Iterable):
        raise TypeError(f"heads must be a list such as [Head(0, 3)], got {heads!r}")
    found = attentions(model)
    return list(dict.fromkeys(checked_head(found, head) for head in heads))


def checked_head(found: list[Attention], head: object) -> Head:
    """The head with its kind. Raises TypeError or ValueError with the valid range."""
    if not isinstance(head, tuple) or len(head) not in (2, 3):
        raise TypeError(f"a head is Head(layer, head) or Head(layer, head, kind), got {head!r}")
    head = Head(*head)
    kinds = list(dict.fromkeys(each.kind for each in found))
    if head.kind is None and len(kinds) > 1:
        raise ValueError(f"{head} names no kind, but the model has {', '.join(kinds)}: Head(layer, head, kind)")
    kind = kinds[0] if head.kind is None else head.kind
    if kind not in kinds:
        raise ValueError(f"there is no {kind!r} attention: the model has {', '.join(kinds)}")
    layers = [each for each in found if each.kind == kind]
    _in_range("layer", head.layer, len(layers), f"the {kind}")
    _in_range("head", head.head, layers[head.layer].all_heads, f"layer {head.layer} of the {kind}")
    return Head(int(head.layer), int(head.head), kind)


def is_of(attention: Attention, head: Head) -> bool:
    return (attention.kind, attention.layer) == (head.kind, head.layer)


def _in_range(what: str, value: object, count: int, where: str) -> None:
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise TypeError(f"a {what} must be a whole number, got {value!r}: {where} has {what}s 0 to {count - 1}")
    if not 0 <= value < count:
        raise ValueError(f"{what} {value} does not exist: {where} has {what}s 0 to {count - 1}")
