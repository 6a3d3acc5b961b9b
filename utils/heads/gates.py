"""Multiply what heads say by gates, through a hook before the output projection."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from numbers import Real

import torch
from torch import Tensor, nn

from utils.architectures import Attention, attentions
from utils.heads.names import checked_head, is_of

Change = Callable[[Tensor], Tensor]
Gates = Tensor | Mapping


@contextmanager
def gated(model: nn.Module, gates: Gates) -> Iterator[None]:
    """Within the scope, every head's output is multiplied by its gate before the output projection.

    gates: a tensor (layers, heads) for a model with one kind of attention; a mapping from kind to such a tensor; or a
    mapping from heads to numbers (others keep 1). Tensors may have a batch axis in front, one row a text, and may need
    gradients. Gate 0 equals removing the head's weights; gates of heads that were removed before do nothing. Scopes
    nest: gates multiply. They act on the model in every thread, and on copies that are made within the scope, until
    the scope ends. Raises TypeError or ValueError for gates that do not fit.
    """
    found = attentions(model)
    factors = _factors(found, gates)
    with hooked((found[i], _multiply(found[i], gate)) for i, gate in factors.items()):
        yield


class GateHook:
    """A forward pre-hook of an output projection that changes what its heads say, as long as its scope lasts."""

    def __init__(self, attention: Attention, change: Change):
        self.attention, self.change = attention, change

    def __deepcopy__(self, _memo: dict) -> GateHook:
        return self  # a copy of the model has the same scopes around it, and they end for it too

    def end(self) -> None:
        self.change = None

    def __call__(self, _module: nn.Module, args: tuple) -> tuple | None:
        if self.change is None:
            return None
        return (self.change(self.attention.split(args[0])).flatten(-2), *args[1:])


@contextmanager
def hooked(changes: Iterable[tuple[Attention, Change]]) -> Iterator[None]:
    """Within the scope, ``change(z)`` takes the place of each attention's z (batch, tokens, heads, d_head)."""
    with ExitStack() as stack:
        for attention, change in changes:
            hook = GateHook(attention, change)
            stack.callback(attention.output.register_forward_pre_hook(hook).remove)
            stack.callback(hook.end)
        yield


@contextmanager
def rewired(found: list[Attention], wrap: Callable[[Change], Change]) -> Iterator[None]:
    """Within the scope, every gate and ablation of the scopes around it does ``wrap(change)`` and not its change."""
    hooks = [hook for each in found for hook in each.output._forward_pre_hooks.values() if isinstance(hook, GateHook)]
    changes = [(hook, hook.change) for hook in hooks if hook.change is not None]
    try:
        for hook, change in changes:
            hook.change = wrap(change)
        yield
    finally:
        for hook, change in changes:
            hook.change = change


def _multiply(attention: Attention, gate: Tensor) -> Change:
    """Multiply by gates of the original heads: (heads,), (batch, heads), or (batch, tokens, heads)."""
    columns = gate[..., list(attention.heads)]
    if columns.ndim == 2:
        columns = columns[:, None]

    def change(z: Tensor) -> Tensor:
        if columns.ndim == 3 and len(columns) not in (1, len(z)):
            raise ValueError(f"gates are for {len(columns)} texts, but the batch has {len(z)}")
        return z * columns[..., None].to(z)

    return change


def _factors(found: list[Attention], gates: Gates) -> dict[int, Tensor]:
    """Gates (…, original heads) for each attention, by its place in the list."""
    kinds = list(dict.fromkeys(each.kind for each in found))
    if isinstance(gates, Tensor):
        if len(kinds) > 1:
            raise ValueError(f"the model has {', '.join(kinds)} attention: give gates as {{kind: tensor}}")
        gates = {kinds[0]: gates}
    if not isinstance(gates, Mapping):
        raise TypeError(f"gates must be a tensor (layers, heads) or a mapping, got {type(gates).__name__}")
    if gates and all(isinstance(key, str) for key in gates):
        return {i: gate for kind, tensor in gates.items() for i, gate in _of_kind(found, kind, tensor).items()}
    return _of_heads(found, gates)


def _of_kind(found: list[Attention], kind: str, gates: Tensor) -> dict[int, Tensor]:
    places = [i for i, each in enumerate(found) if each.kind == kind]
    if not places:
        raise ValueError(f"the model has no {kind!r} attention: it has {', '.join({e.kind: 0 for e in found})}")
    shape = (len(places), found[places[0]].all_heads)
    if not isinstance(gates, Tensor):
        raise TypeError(f"the gates of kind {kind!r} must be a tensor of the shape {shape}, got {gates!r}")
    if gates.ndim not in (2, 3) or gates.shape[-2:] != shape:
        raise ValueError(
            f"gates of kind {kind!r} must have the shape {shape} (layers, heads), or (batch, *{shape}), "
            f"got {tuple(gates.shape)}"
        )
    if gates.is_complex() or not gates.isfinite().all():
        raise ValueError(f"gates of kind {kind!r} must be finite numbers")
    return {i: gates[..., layer, :] for layer, i in enumerate(places)}


def _of_heads(found: list[Attention], gates: Mapping) -> dict[int, Tensor]:
    factors: dict[int, Tensor] = {}
    for key, gate in gates.items():
        head = checked_head(found, key)
        place = next(i for i, each in enumerate(found) if is_of(each, head))
        if not isinstance(gate, Tensor):
            if not isinstance(gate, Real):
                raise TypeError(f"the gate of {key} must be a finite number, got {gate!r}")
            gate = torch.tensor(float(gate))
        if gate.ndim:
            raise ValueError(f"the gate of {key} must be one number, got the shape {tuple(gate.shape)}")
        if gate.is_complex() or not gate.isfinite():
            raise ValueError(f"the gate of {key} must be a finite number, got {gate.item()}")
        before = factors.get(place, torch.ones(found[place].all_heads))
        at = torch.arange(len(before)) == head.head
        factors[place] = torch.where(at, gate.to(before), before)
    return factors
