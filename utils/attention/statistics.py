"""Statistics of every head over many texts: one row a head."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import pandas as pd
import torch
from torch import Tensor, nn

from utils.attention.extraction import MAX_BYTES, groups
from utils.attention.inputs import encode_target, encoder_decoder, inputs_for, longest, start_of_decoder
from utils.attention.reading import Plan
from utils.attention.scope import extracting
from utils.attention.tables import OFFSETS, REACH, Sums, frame_of
from utils.attention.tokens import Encoded, encode

BATCH_BYTES = 2**26  # weights of one batch: 64 MiB


class Reading(NamedTuple):
    """One layer of some texts: weights (texts, heads, queries, keys) in float64, and what its rows and columns are.

    queries, keys: the pieces of each text. reads (texts, queries): ordinary rows, which statistics count; ordinary
    (texts, keys): ordinary columns. sink (texts, keys): special ones, or the first of a text without any; sink_rows
    (texts, queries): rows that can choose between the two. readable (texts, 1, queries, keys): what a row may read.
    Padding is in none of the masks.
    """

    kind: str
    weights: Tensor
    queries: list[Encoded]
    keys: list[Encoded]
    reads: Tensor
    ordinary: Tensor
    sink: Tensor
    sink_rows: Tensor
    readable: Tensor


More = Callable[[Reading], dict[str, tuple[Tensor, Tensor]]]


def head_statistics(
    model: nn.Module,
    tokenizer,
    texts: list[str],
    targets: list[str] | None = None,
    *,
    special: str = "keep",
    per_text: bool = False,
    max_bytes: int = MAX_BYTES,
    more: More | None = None,
) -> pd.DataFrame:
    """A row a head, with means over all ordinary query tokens of all texts. Special tokens are no readers here.

    Columns: kind, layer, head, group (key/value head); tokens (rows the means are over);
    entropy (nats); normalized_entropy (over ln of readable keys, rows with one key left out);
    distance (mean |query − key| in tokens); self_share; offset_-3 … offset_3 (share of weight at a fixed offset);
    sink_share (weight on special tokens, or on the first token if the text has none, the first row left out);
    best_offset, best_offset_share (the most frequent offset of the greatest weight among ordinary keys, and its share
    of the rows; up to ±16); argmax_-3 … argmax_3 (share of rows whose greatest weight lies there).

    special: "keep" takes the weights as they are; "drop" removes special keys and renormalises the rows first
    (sink_share and the arg-max columns are the same either way). targets: for an encoder–decoder, the texts that its
    decoder reads; without them only the encoder is reported. In cross-attention positions of two texts do not
    compare: distance, self, offset and arg-max columns are NaN. per_text: a row a text and head, column ``text``.
    Texts that were cut are named in ``frame.attrs["notices"]``. Padding never counts: a text has the same statistics
    alone and in company.
    more: a function that adds columns. It is called with a ``Reading`` a layer and batch, and returns for each new
    column a sum over rows and the number of these rows, both (texts, heads); the column is their ratio over all texts.
    """
    if special not in ("keep", "drop"):
        raise ValueError(f'special must be "keep" or "drop", got {special!r}')
    texts, targets = _listed(texts, "texts"), None if targets is None else _listed(targets, "targets")
    if targets is not None and len(targets) != len(texts):
        raise ValueError(f"{len(texts)} texts need as many targets, got {len(targets)}")
    with extracting(model):
        sources, decoded = _encoded(model, tokenizer, texts, targets)
        only_encoder = encoder_decoder(model) and targets is None
        plan = Plan.of(model, inputs_for(model, sources[:1], decoded and decoded[:1]))
        wanted = plan.checked({"encoder": range(len(plan.heads["encoder"]))} if only_encoder else None)
        sums: list[dict[str, Sums]] = [{} for _ in texts]
        for batch in _batches(plan, sources, decoded, wanted, max_bytes):
            read = [sources[i] for i in batch]
            written = decoded and [decoded[i] for i in batch]
            found = plan.read(model, inputs_for(model, read, written), wanted)
            for kind in list(found):
                queries, keys = (read if kind in ("encoder", plan.stack) else written), read
                keys = written if kind == "decoder" and written else read
                part = _sums(kind, found.pop(kind), queries, keys, drop=special == "drop", more=more)
                for row, index in enumerate(batch):
                    sums[index][kind] = {name: each[:, :, row] for name, each in part.items()}
        shared = {kind: groups(model, heads[0]) for kind, heads in plan.heads.items()}
    notices = [notice for text in [*sources, *(decoded or [])] for notice in text.notices if " kept " in notice]
    return frame_of(sums, wanted, shared, per_text, notices)


def _listed(texts: list[str], name: str) -> list[str]:
    if isinstance(texts, str) or not isinstance(texts, Iterable):
        raise TypeError(f"{name} must be a list of str, got {type(texts).__name__}: put a single text into brackets")
    texts = list(texts)
    if not texts:
        raise ValueError(f"{name} is empty: give at least one text")
    return texts


def _encoded(
    model: nn.Module, tokenizer, texts: list[str], targets: list[str] | None
) -> tuple[list[Encoded], list[Encoded] | None]:
    limit = longest(model, tokenizer)
    sources = [encode(tokenizer, text, limit, name=f"texts[{i}]") for i, text in enumerate(texts)]
    if not encoder_decoder(model):
        if targets is not None:
            raise ValueError(f"{type(model).__name__} has no separate decoder: leave targets out")
        return sources, None
    if targets is None:
        return sources, [start_of_decoder(model)] * len(texts)
    return sources, [encode_target(model, tokenizer, text, name=f"targets[{i}]") for i, text in enumerate(targets)]


def _batches(
    plan: Plan, sources: list[Encoded], decoded: list[Encoded] | None, wanted: dict[str, list[int]], max_bytes: int
) -> Iterator[list[int]]:
    """Indices of texts of similar length, as many as fit into ``BATCH_BYTES``. Refuses a text above ``max_bytes``."""
    batch: list[int] = []
    for index in sorted(range(len(sources)), key=lambda i: (len(sources[i]), len(decoded[i]) if decoded else 0)):
        shape = (len(sources[index]), max(len(decoded[i]) for i in [*batch, index]) if decoded else None)
        plan.check_bytes(wanted, 1, *shape, max_bytes)
        if batch and plan.bytes(wanted, len(batch) + 1, *shape) > BATCH_BYTES:
            yield batch
            batch = []
        batch.append(index)
    yield batch


def _sums(
    kind: str, layers: list[Tensor], queries: list[Encoded], keys: list[Encoded], *, drop: bool, more: More | None
) -> Sums:
    """Sums over the ordinary rows of each text: tensors (layers, heads, texts) or (layers, heads, texts, offsets)."""
    masks = _masks(kind, queries, keys)
    parts = []
    for index in range(len(layers)):
        reading = Reading(kind, layers[index].cpu().double(), queries, keys, *masks)
        part = _layer_sums(reading, drop)
        for name, (total, rows) in (more(reading) if more else {}).items():
            part |= {f"more:{name}": total, f"rows:{name}": rows}
        parts.append(part)
        layers[index] = None
    return {name: torch.stack([part[name].transpose(0, 1) for part in parts]) for name in parts[0]}


def _masks(kind: str, queries: list[Encoded], keys: list[Encoded]) -> tuple[Tensor, ...]:
    """The masks of a ``Reading``."""
    reads = _padded([[not mark for mark in text.special] for text in queries])
    ordinary = _padded([[not mark for mark in text.special] for text in keys])
    sink = _padded([text.special if any(text.special) else [True] + [False] * (len(text) - 1) for text in keys])
    sink_rows = reads & (ordinary & ~sink).any(-1, keepdim=True)
    first_is_sink = (ordinary & sink).any(-1)  # no special token: the first token stands for one, and does not read
    sink_rows[:, 0] &= ~first_is_sink if kind != "cross" else True
    readable = (ordinary | sink)[:, None, None].repeat(1, 1, reads.shape[1], 1)
    return reads, ordinary, sink, sink_rows, readable.tril() if kind == "decoder" else readable


def _padded(rows: list[list[bool]]) -> Tensor:
    longest_row = max(map(len, rows))
    return torch.tensor([row + [False] * (longest_row - len(row)) for row in rows])


def _layer_sums(reading: Reading, drop: bool) -> Sums:
    """The same for one layer: tensors (texts, heads, …)."""
    weights, readable = reading.weights, reading.readable
    ordinary = reading.ordinary[:, None, None]
    on_sink = (weights * reading.sink[:, None, None]).sum(-1)
    ordinary_weights = weights.masked_fill(~ordinary, 0.0)
    if drop:
        left = ordinary_weights.sum(-1, keepdim=True)
        weights = torch.where(left == 0, 0.0, ordinary_weights / left.where(left > 0, 1.0))
        readable = readable & ordinary
    readable, rows, sink_rows = readable.sum(-1), reading.reads[:, None], reading.sink_rows[:, None]
    row_entropy = torch.special.entr(weights).sum(-1)
    choice = rows & (readable > 1)
    sums = {
        "tokens": _total(torch.ones_like(row_entropy), rows),
        "entropy": _total(row_entropy, rows),
        "choices": _total(torch.ones_like(row_entropy), choice),
        "normalized_entropy": _total(row_entropy / readable.clamp(min=2).log(), choice),
        "sink_rows": _total(torch.ones_like(row_entropy), sink_rows),
        "sink_share": _total(on_sink, sink_rows),
    }
    return sums if reading.kind == "cross" else sums | _position_sums(weights, ordinary_weights, rows)


def _position_sums(weights: Tensor, ordinary_weights: Tensor, rows: Tensor) -> Sums:
    """Sums that compare the positions of query and key; both are counted in the text with its special tokens."""
    n = weights.shape[-1]
    position = torch.arange(n)
    gap = position - position[:, None]
    best = ordinary_weights.argmax(-1) - position
    has_best = rows & (ordinary_weights.amax(-1) > 0)
    reach = torch.arange(-REACH, REACH + 1)
    weights = weights * rows[..., None]
    zero = weights.new_zeros(weights.shape[:2])
    return {
        "distance": (weights * gap.abs()).sum((-2, -1)),
        "offsets": torch.stack([weights.diagonal(o, -2, -1).sum(-1) if abs(o) < n else zero for o in OFFSETS], dim=-1),
        "argmax": torch.stack([_total((best == o).double(), has_best) for o in reach], dim=-1),
    }


def _total(values: Tensor, rows: Tensor) -> Tensor:
    return (values * rows).sum(-1)
