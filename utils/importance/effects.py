"""What happens when a head is taken out: exact, for every head, without computing the same thing twice."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import nullcontext
from numbers import Integral
from typing import NamedTuple

import pandas as pd
import torch
from torch import Tensor, nn

from utils.architectures import Attention, attentions
from utils.attention.scope import evaluating
from utils.heads import Head, head_outputs, heads_of, resolve
from utils.heads.ablation import check_mode, replacement
from utils.heads.gates import Change, hooked, rewired
from utils.heads.names import is_of
from utils.heads.running import (
    Batch,
    check_masks,
    checked_batches,
    checked_function,
    checked_seed,
    run,
    texts_of,
)
from utils.importance.reuse import Kept, blockwise, is_by_text, repeated
from utils.importance.running import checked_value, mapped, tensors_in

TOKENS = 512  # of a run with several heads: above it a shared run is no faster than one for each

Changes = list[tuple[Head, Change]]  # heads of one attention, and what replaces the attention's z for each


@torch.no_grad()
def ablation_effect(
    model: nn.Module,
    batches: Iterable[Batch],
    metric: Callable[[object, Batch], Tensor],
    *,
    heads: Iterable | None = None,
    mode: str = "zero",
    reference: Iterable[Batch] | None = None,
    together: int | None = None,
    seed: int = 0,
) -> pd.DataFrame:
    """A row a head (kind, layer, head): the metric without this head (value), and minus the full model's (effect).

    Exact: equal to running the metric within ``ablated(model, [head], mode, reference, seed)``, head by head, and the
    other heads stay. Of every batch the full model runs once; for a head only what comes after it is computed again,
    and several heads of a layer share a run. The full model's value is in ``frame.attrs["full"]``.

    metric(outputs, batch): a scalar, the mean over the batch's texts, or one value a text (texts,). The mean over
    batches has the numbers of texts as weights. It sees one head's outputs for the whole batch, as if run alone.
    heads: all by default; heads that were removed are left out. together: heads that share a run, by default as many
    as pays off; always 1 if the outputs hold something that has no row a text, such as a loss from labels: leave the
    labels out of the batch's keys that the model reads, and compute the loss in the metric, to share runs.
    Layer outputs are kept for one batch at a time. Gates of scopes around the call stay. Raises TypeError or
    ValueError for a batch that the model cannot read and for a metric of another shape or not finite.
    """
    check_mode(mode, reference)
    seed = checked_seed(seed)
    metric, batches = checked_function(metric, "metric"), checked_batches(batches)
    if together is not None and (not isinstance(together, Integral) or isinstance(together, bool) or together < 1):
        raise ValueError(f"together must be a whole number of heads from 1 on, got {together!r}")
    found, left = attentions(model), heads_of(model)
    chosen = left if heads is None else [head for head in resolve(model, heads) if head in set(left)]
    if not chosen:
        raise ValueError("there is no head to take out: give some that the model still has, or leave heads out")
    concerned = [each for each in found if any(is_of(each, head) for head in chosen)]
    pools = {} if mode == "zero" else head_outputs(model, reference, concerned)
    changes = [(each, _changes(each, chosen, mode, pools.get(each.name), seed)) for each in concerned]
    full, values, texts = 0.0, dict.fromkeys(chosen, 0.0), 0
    with evaluating(model):
        for number, batch in enumerate(batches):
            step = _Step.of(model, found, batch, number)
            full += step.texts * step.value(metric, step.outputs)
            for attention, of_heads in changes:
                for head, outputs in step.without(attention, of_heads, together):
                    values[head] += step.texts * step.value(metric, outputs)
            texts += step.texts
    frame = pd.DataFrame([(head.kind, head.layer, head.head) for head in chosen], columns=["kind", "layer", "head"])
    frame["value"] = [values[head] / texts for head in chosen]
    frame["effect"] = frame["value"] - full / texts
    frame.attrs["full"] = full / texts
    return frame


class _Step(NamedTuple):
    """One batch, and what the full model made of it."""

    model: nn.Module
    found: list[Attention]
    batch: Batch
    number: int
    texts: int
    tokens: int  # of one text, padding included
    outputs: object
    kept: Kept

    @classmethod
    def of(cls, model: nn.Module, found: list[Attention], batch: Batch, number: int) -> _Step:
        texts = texts_of(batch, number)
        check_masks(model, found, batch, number)
        kept = Kept(model, found)
        with kept.recording():
            outputs = run(model, batch, number)
        tokens = max(each.shape[1] for each in batch.values() if isinstance(each, Tensor) and each.ndim > 1)
        return cls(model, found, batch, number, texts, tokens, outputs, kept)

    def value(self, metric: Callable, outputs: object) -> float:
        return float(checked_value(metric(outputs, self.batch), self.texts, "metric", self.number).double().mean())

    def without(self, attention: Attention, of_heads: Changes, together: int | None):
        """(head, outputs without this head), for heads of one attention, as many of them in a run as told."""
        size = together or max(1, TOKENS // (self.texts * self.tokens))
        if not all(is_by_text(each, self.texts) for each in tensors_in(self.outputs)):
            size = 1
        while of_heads:
            block, of_heads = of_heads[:size], of_heads[size:]
            outputs = self._run(attention, [change for _, change in block])
            for place, (head, _) in enumerate(block):
                yield head, _part(outputs, place, len(block), self.texts)

    def _run(self, attention: Attention, changes: list[Change]) -> object:
        """The outputs for the batch, once for every change, one after the other."""
        copies = len(changes)

        def change(z: Tensor) -> Tensor:
            return torch.cat([each(part) for each, part in zip(changes, z.chunk(copies), strict=True)])

        batch = {name: repeated(each, self.texts, copies) for name, each in self.batch.items()}
        has_maps = any("attentions" in str(name) for name in getattr(self.outputs, "keys", tuple)())
        reusing = nullcontext() if has_maps else self.kept.reusing(attention, self.texts, copies)
        with reusing, rewired(self.found, blockwise(copies)), hooked([(attention, change)]):
            return run(self.model, batch, self.number)


def _changes(attention: Attention, chosen: list[Head], mode: str, pool: Tensor | None, seed: int) -> Changes:
    """For each chosen head of an attention what replaces z; draws go on from batch to batch, for each head alone."""
    places = [(head, attention.heads.index(head.head)) for head in chosen if is_of(attention, head)]
    return [
        (head, replacement(attention, [place], mode, pool, torch.Generator().manual_seed(seed)))
        for head, place in places
    ]


def _part(outputs: object, place: int, copies: int, texts: int) -> object:
    """The outputs of one copy of the batch."""
    if copies == 1:
        return outputs
    if not all(is_by_text(each, copies * texts) for each in tensors_in(outputs)):
        raise ValueError("the outputs hold a tensor that has no row a text: pass together=1")
    return mapped(outputs, lambda each: each[place * texts : (place + 1) * texts])
