"""Roles of heads by rule, after Voita et al. 2019 (arXiv 1905.09418), over many texts and beside chance.

A role is what the greatest weight of most rows does. It is no proof of what the head is for: ablation asks that.
"""

from __future__ import annotations

from numbers import Integral, Real

import pandas as pd
import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from utils.attention.extraction import MAX_BYTES
from utils.attention.statistics import More, Reading, head_statistics
from utils.attention.tables import REACH
from utils.attention.text import checked_text

NEIGHBOURS = {-1: "previous token", 1: "next token", 0: "same token"}
HEAD = ["kind", "layer", "head"]
SCORES = [*HEAD, "relation", "direction", "share", "baseline"]  # what is read of ``dependency_scores``


def head_roles(
    model: nn.Module,
    tokenizer,
    texts: list[str],
    targets: list[str] | None = None,
    *,
    counts: Tensor | None = None,
    common: int = 0,
    syntactic: pd.DataFrame | None = None,
    share: float = 0.9,
    rarest: float = 0.5,
    sink: float = 0.5,
    margin: float = 0.1,
    max_bytes: int = MAX_BYTES,
) -> pd.DataFrame:
    """A row a head: for each rule its share and what chance gives, then the rules that are passed and the role.

    counts: how often each token occurs in a corpus (``token_counts``), by default in ``texts`` and ``targets``. Take a
    much larger corpus where there is one: in a small one many tokens are equally rare, and chance is high.
    common: leave out rows whose rarest token is among the ``common`` most frequent ones (Voita et al.: 500).
    syntactic: the table of ``dependency_scores``, or a part of it. The other names are the thresholds of ``roles``.
    targets: for an encoder–decoder, what its decoder reads; without them only the encoder is reported.

    Columns beside kind, layer, head, group, tokens (rows that are counted; special tokens do not read):
    best_offset, best_offset_share – the most frequent offset of the greatest weight among ordinary keys, its share;
    best_offset_null – the chance of a given ordinary key, mean of 1/keys; best_offset_most – the greatest share there
    can be, since a token at the edge of its text has no key at the offset; in cross-attention all four are NaN;
    rarest_share, rarest_two_share – rows whose greatest weight lies on the rarest token they can read, or on one of
    the two rarest (tokens that are equally rare all count; rows with one readable token are left out), and
    rarest_null, rarest_two_null – the share of such tokens among the readable ones;
    sink_share – weight on special tokens, or on the first token if there are none, and sink_null – their share;
    confidence – mean greatest weight on an ordinary key, and confidence_null – 1/keys, a uniform row;
    with ``syntactic``: syntactic_relation, syntactic_share, syntactic_null – the relation with the greatest gain over
    the best fixed offset, its share of arcs, and that offset's;
    passes – names of the rules that are passed; role – the first of them, else "unlabelled".

    Padding never counts, nor do special tokens as keys of the arg-max. Null model besides: ``untrained(model)``, whose
    heads stay unlabelled. The best of many heads on some texts looks better than it is: choose on one half of the
    texts and report on the other.
    """
    _check_thresholds(share, sink, rarest, margin)
    if counts is None:
        counts = token_counts(tokenizer, texts, targets or ())
    found = head_statistics(model, tokenizer, texts, targets, max_bytes=max_bytes, more=_shares(counts, common))
    frame = found[[*HEAD, "group", "tokens", "best_offset", "best_offset_share"]].copy()
    frame["best_offset_null"] = found["offset_null"].where(found["best_offset_share"].notna())
    at = zip(found.index, found["best_offset"], strict=True)
    most = [float("nan") if offset != offset else found.loc[row, f"most_{int(offset)}"] for row, offset in at]
    frame["best_offset_most"] = most
    names = ("rarest_share", "rarest_null", "rarest_two_share", "rarest_two_null", "sink_share", "sink_null")
    frame = frame.join(found[[*names, "confidence", "confidence_null"]])
    if syntactic is not None:
        frame = frame.merge(_best_relation(syntactic), on=HEAD, how="left")
    rules = _rules(frame, share, sink, rarest, margin)
    frame["passes"] = [", ".join(row.dropna()) for _, row in rules.iterrows()]
    frame["role"] = roles(frame, share, sink, rarest, margin)
    frame.attrs = dict(found.attrs)
    return frame


def roles(
    frame: pd.DataFrame, share: float = 0.9, sink: float = 0.5, rarest: float = 0.5, margin: float = 0.1
) -> pd.Series:
    """A label for each row of ``head_statistics`` (offset and sink rules only) or ``head_roles`` (all rules).

    "previous token", "next token", "same token": the greatest weight among ordinary keys falls there in ``share`` of
    rows; else "rare": it falls on the rarest token in ``rarest`` of the rows that chance does not explain,
    (share − null) / (1 − null); else "syntactic": it hits a dependency ``margin`` more often than the best fixed offset
    does; else "sink": more than ``sink`` of the weight lies on special tokens; else "unlabelled". Thresholds of Voita
    et al.: 0.9, about 0.5 (not corrected for chance, which is small in long sentences), 0.1; they have no sinks.
    Null model: all heads of an untrained model are unlabelled.
    """
    _check_thresholds(share, sink, rarest, margin)
    first = _rules(frame, share, sink, rarest, margin).bfill(axis=1).iloc[:, 0]
    return first.fillna("unlabelled").rename("role")


def positional_heads(frame: pd.DataFrame, share: float = 0.9) -> pd.DataFrame:
    """The rows of ``head_statistics`` whose greatest weight falls on the token before or after in ``share`` of rows.

    Null model: no head of an untrained model passes. Source: Voita et al. 2019 (arXiv 1905.09418), section 5.1.
    """
    return frame[(frame["best_offset"].abs() == 1) & (frame["best_offset_share"] >= share)]


def token_counts(tokenizer, texts: list[str], targets: list[str] = ()) -> Tensor:
    """How often each token id occurs in the texts, special tokens left out: (vocabulary,), whole numbers.

    targets: texts in the target language of a translation model, added to the same table. Raises TypeError for a str.
    """
    ids = []
    for name, given in (("text", texts), ("text_target", targets)):
        if isinstance(given, str):
            raise TypeError("texts and targets must be lists of str, got str: put a single text into brackets")
        if given := list(given):
            for text in given:
                if not isinstance(text, str) or text.strip():
                    checked_text(text, name)
            options = {"add_special_tokens": False, "verbose": False}
            ids += [number for text in tokenizer(**{name: given}, **options)["input_ids"] for number in text]
    counts = torch.bincount(torch.tensor(ids, dtype=torch.long), minlength=len(tokenizer))
    counts[[number for number in tokenizer.all_special_ids if number is not None]] = 0
    return counts


def _check_thresholds(*values: float) -> None:
    for name, value in zip(("share", "sink", "rarest", "margin"), values, strict=True):
        if not isinstance(value, Real) or value != value:
            raise TypeError(f"{name} must be a number such as 0.5, got {value!r}")


def _rules(frame: pd.DataFrame, share: float, sink: float, rarest: float, margin: float) -> pd.DataFrame:
    """For each rule a column: its label where a head passes it, else missing. Rules without data are left out."""
    offset = frame["best_offset"].map(NEIGHBOURS).where(frame["best_offset_share"] >= share)
    rules = {"positional": offset.astype(object)}
    passed = {}
    if "rarest_share" in frame:
        by_chance = frame["rarest_null"]
        passed["rare"] = frame["rarest_share"] - by_chance >= rarest * (1 - by_chance)
    if "syntactic_share" in frame:
        passed["syntactic"] = frame["syntactic_share"] - frame["syntactic_null"] >= margin
    passed["sink"] = frame["sink_share"] > sink
    for label, mask in passed.items():
        rules[label] = pd.Series(label, index=frame.index, dtype=object).where(mask)
    return pd.DataFrame(rules)


def _best_relation(scores: pd.DataFrame) -> pd.DataFrame:
    if not isinstance(scores, pd.DataFrame):
        raise TypeError(f"syntactic must be the table of dependency_scores, got {type(scores).__name__}")
    missing = [name for name in SCORES if name not in scores]
    if missing:
        raise ValueError(f"syntactic lacks the column {missing[0]!r}: give the table of dependency_scores")
    gain = (scores["share"] - scores["baseline"]).dropna()  # heads that were removed have none
    best = scores.loc[gain.groupby([scores[name] for name in HEAD]).idxmax()]
    return best[HEAD].assign(
        syntactic_relation=best["relation"] + " " + best["direction"],
        syntactic_share=best["share"],
        syntactic_null=best["baseline"],
    )


def _shares(counts: Tensor, common: int) -> More:
    """The further columns of ``head_statistics`` that the rules need."""
    try:
        counts = torch.as_tensor(counts).double()
    except (TypeError, RuntimeError, ValueError):
        raise TypeError(f"counts must be a tensor, as of token_counts, got {type(counts).__name__}") from None
    if not isinstance(common, Integral):
        raise TypeError(f"common must be a whole number of tokens, got {common!r}")
    if not counts.isfinite().all():
        raise ValueError("counts must be finite numbers")
    if counts.ndim != 1 or not 0 <= common < len(counts):
        raise ValueError(
            f"counts must be a number for each token id, as of token_counts, and common from 0 to below their number; "
            f"got the shape {tuple(counts.shape)} and common = {common}"
        )
    frequent = counts.topk(common).values[-1] if common else torch.inf

    def more(reading: Reading) -> dict[str, tuple[Tensor, Tensor]]:
        ordinary = reading.readable & reading.ordinary[:, None, None]
        choices, keys = ordinary.sum(-1), reading.readable.sum(-1).clamp(min=1)
        weights = reading.weights.masked_fill(~ordinary, 0.0)
        greatest, best = weights.max(-1)
        rows, sink_rows = reading.reads[:, None], reading.sink_rows[:, None]
        on_sink = (reading.readable & reading.sink[:, None, None]).sum(-1)
        least, second, occurs = _rarest(reading, counts, ordinary)
        compared = rows & (choices > 1) & (least < frequent)
        values = {
            "offset_null": (1 / choices.clamp(min=1), rows),
            "sink_null": (on_sink / keys, sink_rows),
            "confidence": (greatest, rows),
            "confidence_null": (1 / keys, rows),
        }
        if reading.kind != "cross":
            wide = pad(ordinary, (REACH, REACH))
            for offset in range(-REACH, REACH + 1):
                values[f"most_{offset}"] = (wide.diagonal(REACH + offset, -2, -1), rows)
        for name, threshold in (("rarest", least), ("rarest_two", second)):
            rare = ordinary & (occurs <= threshold[..., None])
            hits = rare.expand(weights.shape).gather(-1, best[..., None])[..., 0] & (greatest > 0)
            values |= {
                f"{name}_share": (hits, compared),
                f"{name}_null": (rare.sum(-1) / choices.clamp(min=1), compared),
            }
        return {
            name: ((value * mask).sum(-1).double().expand(weights.shape[:2]), mask.sum(-1).expand(weights.shape[:2]))
            for name, (value, mask) in values.items()
        }

    return more


def _rarest(reading: Reading, counts: Tensor, ordinary: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Counts of the rarest and second rarest kind of token each row can read (texts, 1, queries), and of each key."""
    found = torch.full((len(reading.keys), reading.weights.shape[-1]), torch.inf, dtype=torch.float64)
    first = torch.zeros_like(found, dtype=torch.bool)  # a token's first occurrence in its text
    for row, text in enumerate(reading.keys):
        ids = torch.tensor(text.ids)
        if ids.max() >= len(counts):
            raise ValueError(f"counts end at token {len(counts) - 1}, the texts hold token {int(ids.max())}")
        found[row, : len(ids)] = counts[ids]
        first[row, [text.ids.index(number) for number in set(text.ids)]] = True
    found = found[:, None, None]
    kinds = found.where(ordinary & first[:, None, None], torch.inf)
    lowest = kinds.topk(min(2, kinds.shape[-1]), dim=-1, largest=False).values
    second = lowest[..., -1].where(lowest[..., -1] < torch.inf, lowest[..., 0])
    return lowest[..., 0], second, found
