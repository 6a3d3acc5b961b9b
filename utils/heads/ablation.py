"""Take heads out for a while: zeros, their mean, or random outputs of their own in their place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager

import torch
from torch import Tensor, nn

from utils.architectures import Attention, attentions, mask_of
from utils.attention.scope import evaluating
from utils.heads.gates import Change, hooked, rewired
from utils.heads.names import Head, is_of, resolve
from utils.heads.running import Batch, check_masks, checked_batches, checked_seed, run, texts_of

MODES = ("zero", "mean", "resample")
POOL = 4096  # tokens kept of a reference to draw from


@contextmanager
def ablated(
    model: nn.Module, heads: Iterable, mode: str = "zero", reference: Iterable[Batch] | None = None, seed: int = 0
) -> Iterator[None]:
    """Within the scope, the given heads say nothing of their own.

    mode: "zero" (their output is 0), "mean" (their mean over the real tokens of ``reference``), or "resample" (at
    every position the output at a random real token of ``reference``; ``seed`` fixes the draw). A zero is an output
    that the layers above may never have seen; the mean keeps the constant part of a head, resampling its spread too.
    reference: batches of other data, run through the model without any gates. Scopes nest.
    """
    check_mode(mode, reference)
    found = attentions(model)
    rows = _rows(found, resolve(model, heads))
    pools = {} if mode == "zero" else head_outputs(model, reference, [found[i] for i in rows])
    generator = torch.Generator().manual_seed(checked_seed(seed))
    with hooked(
        (found[i], replacement(found[i], index, mode, pools.get(found[i].name), generator)) for i, index in rows.items()
    ):
        yield


def check_mode(mode: str, reference: Iterable[Batch] | None) -> None:
    """Raises ValueError for a mode that does not exist or does not go with the reference."""
    if mode not in MODES:
        raise ValueError(f"mode must be one of {', '.join(MODES)}, got {mode!r}")
    if mode != "zero" and reference is None:
        raise ValueError(f'mode "{mode}" needs reference=[batches of other data], or take mode="zero"')
    if mode == "zero" and reference is not None:
        raise ValueError('mode "zero" uses no reference: leave it out, or take mode="mean"')


@torch.no_grad()
def head_outputs(
    model: nn.Module, batches: Iterable[Batch], chosen: list[Attention] | None = None
) -> dict[str, Tensor]:
    """What the heads put into the output projection on real tokens, by the attention's name: (tokens, heads, d_head).

    The model runs in evaluation mode and without any gates. At most 4,096 tokens, spread evenly, are kept.
    Raises TypeError or ValueError for batches that the model cannot read and for texts without a real token.
    """
    chosen = attentions(model) if chosen is None else chosen
    kept: dict[str, list[Tensor]] = {each.name: [] for each in chosen}
    current: Batch = {}

    def keep(attention: Attention):
        def hook(_module: nn.Module, args: tuple) -> None:
            mask = mask_of(attention, current)
            z = attention.split(args[0])
            is_mask = mask is not None and mask.shape == z.shape[:2]
            kept[attention.name].append(z[mask] if is_mask else z.flatten(0, -3))

        return hook

    with evaluating(model), rewired(attentions(model), _no_change), ExitStack() as stack:
        for each in chosen:
            stack.callback(each.output.register_forward_pre_hook(keep(each)).remove)
        for number, current in enumerate(checked_batches(batches)):
            texts_of(current, number)
            check_masks(model, chosen, current, number)
            run(model, current, number)
    return {name: _thinned(torch.cat(parts)) for name, parts in kept.items()}


def replacement(
    attention: Attention, index: list[int], mode: str, pool: Tensor | None, generator: torch.Generator
) -> Change:
    """Put zeros, the mean of a pool (tokens, heads, d_head), or random members of it in place of some heads."""

    def change(z: Tensor) -> Tensor:
        z = z.clone()
        if mode == "zero":
            z[..., index, :] = 0
        elif mode == "mean":
            z[..., index, :] = pool[:, index].mean(0).to(z)
        else:
            draw = torch.randint(len(pool), z.shape[:-2], generator=generator)
            z[..., index, :] = pool[draw][..., index, :].to(z)
        return z

    return change


def _no_change(_change: Change) -> Change:
    return lambda z: z


def _thinned(tokens: Tensor) -> Tensor:
    if len(tokens) == 0:
        raise ValueError("the reference has no real token: its masks are all 0")
    return tokens if len(tokens) <= POOL else tokens[torch.linspace(0, len(tokens) - 1, POOL).long()]


def _rows(found: list[Attention], heads: list[Head]) -> dict[int, list[int]]:
    """For each attention (by its place in the list) the positions, among its heads, of those to change."""
    rows: dict[int, list[int]] = {}
    for i, each in enumerate(found):
        index = [each.heads.index(h.head) for h in heads if is_of(each, h) and h.head in each.heads]
        if index:
            rows[i] = index
    return rows
