"""Attention maps for the attention-explorer: all heads of one text, or of the same text before and after a change."""

from __future__ import annotations

from html import escape
from numbers import Integral

import numpy as np
import pandas as pd

from utils.attention.maps import AttentionMaps
from utils.attention.statistics import OFFSETS, REACH
from utils.elements import Figure, palette, table
from utils.measures import roles
from utils.payload import picture, weights_to_codes

MAX_CODES = 3_000_000  # about 4 MB of output
COLUMNS = {  # column of head_statistics → (label, unit)
    "entropy": ("entropy", "nats"),
    "sink_share": ("on special tokens", "%"),  # "on the first token" in a text without special ones
    "distance": ("mean distance", "tokens"),
    "best_offset": ("most frequent offset", ""),
    "best_offset_share": ("rows at that offset", "%"),
}


def attention_explorer(
    maps: AttentionMaps,
    statistics: pd.DataFrame | None = None,
    other: AttentionMaps | None = None,
    *,
    title: str = "",
    layer: int | None = None,
    head: int = 0,
    row: int | str | None = None,
    words: bool = False,
    special: bool = True,
    threshold: float = 0.05,
    names: tuple[str, str] = ("before", "after"),
    alt: str | None = None,
) -> Figure:
    """A grid of all heads; one is read word by word, as lines and as a matrix (row = query, column = key).

    maps: what ``attention_maps`` gives for one text. statistics: rows of ``head_statistics`` (with a column ``role``,
    or roles by the offset and sink rules); without it the numbers are those of this text. other: a second map of the
    same shape, drawn beside the first with the difference, named by ``names``. layer (its number in the model), head,
    row (position or text of a query), words, special and threshold say how it opens. Raises ValueError.
    Weights are stored as square roots in 8 bits; statistics come from the exact values.
    """
    layer = _checked(maps, other, layer, head, threshold)
    labels = {side: _side(maps, other, side) for side in ("queries", "keys")}
    both = [each for each in (maps, other) if each]
    frames = [_own_statistics(each) for each in both] if statistics is None else [_of_maps(statistics, maps)]
    shown = [name for name in COLUMNS if name in frames[0] and frames[0][name].notna().any()]
    size = maps.weights.shape[:2]
    arrays = {"weights": weights_to_codes(_numpy(maps))} | ({"other": weights_to_codes(_numpy(other))} if other else {})
    arrays["statistics"] = np.stack([[f[c].to_numpy(np.float32).reshape(size) for c in shown] for f in frames])
    profile = [f"offset_{o}" for o in OFFSETS]
    if set(profile) <= set(frames[0]) and frames[0][profile].notna().any(axis=None):
        arrays["profile"] = np.stack([f[profile].to_numpy(np.float32).reshape(*size, len(OFFSETS)) for f in frames])
    if any(labels["keys"]["special"]) and not all(labels["queries"]["special"]):
        arrays["dropped"] = np.stack([_dropped(each) for each in both])
    index = maps.layers.index(layer)
    position = _row(maps, row)
    grouped = len(set(maps.groups)) < len(maps.groups)
    hint = "Choose a head in the grid; point at a word, tap it or use the arrow keys to read what it attends to."
    data = {
        **labels,
        "columns": [{"label": _label(maps, name), "unit": COLUMNS[name][1]} for name in shown],
        "groups": list(maps.groups) if grouped else None,
        "hint": hint,
        "kind": maps.kind,
        "layers": list(maps.layers),
        "missing": bool(any(np.isnan(_numpy(each)).any() for each in both)),
        "names": list(names),
        "notices": list(dict.fromkeys(notice for each in both for notice in each.notices)),
        "offsets": list(OFFSETS),
        "open": {
            "head": head,
            "layer": index,
            "row": position,
            "special": special,
            "threshold": threshold,
            "words": words,
        },
        "roles": frames[0]["role"].to_numpy().reshape(size).tolist() if "role" in frames[0] else None,
        "source": _source(statistics),
        "title": title,
    }
    compared = f", {names[0]} and {names[1]}" if other else ""
    alt = alt or (
        f"Attention of {size[0]} layers with {size[1]} heads over {len(maps.keys)} tokens{compared}, "
        f"opened at layer {layer}, head {head}"
    )
    return Figure("attention-explorer", data, alt, _fallback(maps, layer, head, position, title, alt), arrays)


def _numpy(maps: AttentionMaps) -> np.ndarray:
    return maps.weights.detach().cpu().double().numpy()


def _checked(maps, other, layer: int | None, head: int, threshold: float) -> int:
    """The layer that is opened, after everything that came in has been checked."""
    if isinstance(maps, dict):
        raise TypeError(f"one of the maps is needed, not the dict of all: maps[{next(iter(maps), 'encoder')!r}]")
    for each in (maps, other):
        if not isinstance(each, AttentionMaps) and (each is not None or maps is None):
            raise TypeError(f"AttentionMaps are needed (see utils.attention.attention_maps), got {type(each).__name__}")
    if 0 in maps.weights.shape:
        raise ValueError(f"nothing to draw: the weights have the shape {tuple(maps.weights.shape)}")
    if other is not None and other.kind != maps.kind:
        raise ValueError(f"two maps can be compared only if they are of one kind, got {maps.kind} and {other.kind}")
    if other is not None and other.weights.shape != maps.weights.shape:
        raise ValueError(
            f"two maps can be compared only if their shapes agree, got {tuple(maps.weights.shape)} and "
            f"{tuple(other.weights.shape)}: take the same layers and texts of as many tokens"
        )
    count = maps.weights.numel() * (2 if other else 1)
    if count > MAX_CODES:
        raise ValueError(
            f"{count:,} weights make a figure of {count * 4 / 3e6:.1f} MB, the limit is {MAX_CODES * 4 / 3e6:.0f}: "
            "take fewer layers (layers=) or a shorter text"
        )
    for each in (maps, other) if other else (maps,):
        sums = _numpy(each).sum(-1)
        bad = ~(np.isnan(sums) | (np.abs(sums - 1) < 5e-3) | (sums == 0))
        if bad.any() or (each.weights < 0).any():
            raise ValueError(
                f"each row must be a distribution (or empty, or missing): {int(bad.sum())} rows do not sum to 1"
                if bad.any()
                else "weights must not be negative: softmax the scores first"
            )
    if not 0 <= threshold <= 0.5:
        raise ValueError(f"threshold is the smallest weight drawn as a line, 0 to 0.5, got {threshold}")
    layer = maps.layers[0] if layer is None else layer
    maps.head(layer, head)
    return layer


def _side(maps: AttentionMaps, other: AttentionMaps | None, side: str) -> dict:
    """Labels of one side: pieces, which are special, the group of each piece and the word each group spells."""
    pieces = list(getattr(maps, side))
    if other:
        pieces = [a if a == b else f"{a} / {b}" for a, b in zip(pieces, getattr(other, side), strict=True)]
    singular = {"queries": "query", "keys": "key"}[side]
    numbers = getattr(maps, f"{singular}_words")
    names = getattr(maps, f"{singular}_word_labels")
    order: dict = {}
    groups = [order.setdefault(("piece", i) if n is None else n, len(order)) for i, n in enumerate(numbers)]
    sizes = np.bincount(groups) if groups else []
    words = [pieces[groups.index(g)] if sizes[g] == 1 else names[numbers[groups.index(g)]] for g in range(len(order))]
    special = [int(mark) for mark in getattr(maps, f"special_{side}").tolist()]
    return {"groups": groups, "labels": pieces, "special": special, "words": words}


def _row(maps: AttentionMaps, row: int | str | None) -> int:
    if row is None:
        ordinary = [i for i, mark in enumerate(maps.special_queries.tolist()) if not mark] or [0]
        return ordinary[len(ordinary) // 2]
    if isinstance(row, str):
        if row not in maps.queries:
            raise ValueError(f"no query is called {row!r}: they are {', '.join(maps.queries)}")
        return maps.queries.index(row)
    if not isinstance(row, Integral) or isinstance(row, bool):
        raise TypeError(f"row must be the number or the label of a query, got {row!r}")
    if not 0 <= row < len(maps.queries):
        raise ValueError(f"query {row} does not exist: the map has queries 0 to {len(maps.queries) - 1}")
    return int(row)


def _of_maps(statistics: pd.DataFrame, maps: AttentionMaps) -> pd.DataFrame:
    """The rows of these layers and heads, in their order, with a role."""
    missing = {"layer", "head", "entropy"} - set(statistics.columns)
    if missing:
        raise ValueError(f"statistics lack the column {min(missing)!r}: give the rows of head_statistics")
    frame = statistics[statistics["kind"] == maps.kind] if "kind" in statistics else statistics
    wanted = pd.MultiIndex.from_product([maps.layers, range(maps.weights.shape[1])], names=["layer", "head"])
    frame = frame.set_index(["layer", "head"])
    if frame.index.has_duplicates or not wanted.isin(frame.index).all():
        raise ValueError(f"statistics must have one row for each {maps.kind} head of layers {maps.layers}")
    frame = frame.loc[wanted].reset_index()
    return frame if "role" in frame else _with_roles(frame)


def _with_roles(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(role=roles(frame)) if {"best_offset", "sink_share"} <= set(frame) else frame


def _own_statistics(maps: AttentionMaps) -> pd.DataFrame:
    """The columns of ``head_statistics`` that are shown, for this text alone: means over its ordinary queries."""
    weights = _numpy(maps)
    special, readers = maps.special_keys.numpy(), ~maps.special_queries.numpy()
    readers = readers if readers.any() else ~readers
    layers, heads, n, m = weights.shape
    rows = weights[:, :, readers]
    with np.errstate(divide="ignore", invalid="ignore"):
        entropy = -np.where(rows > 0, rows * np.log(rows), 0.0 * rows).sum(-1).mean(-1)
    index = pd.MultiIndex.from_product([maps.layers, range(heads)], names=["layer", "head"])
    frame = pd.DataFrame({"entropy": entropy.ravel()}, index=index).reset_index()
    if special.any() or m == 1:
        frame["sink_share"] = rows[..., special].sum(-1).mean(-1).ravel()
    else:
        frame["sink_share"] = weights[:, :, 0 if maps.kind == "cross" else 1 :, 0].mean(-1).ravel()
    if maps.kind == "cross" or n != m or special.all():
        return _with_roles(frame.assign(best_offset=np.nan, best_offset_share=np.nan))
    places = np.flatnonzero(readers)
    away = np.arange(m) - places[:, None]
    frame["distance"] = (rows * np.abs(away)).sum(-1).mean(-1).ravel()
    for offset in OFFSETS:
        frame[f"offset_{offset}"] = np.where(away == offset, rows, 0.0 * rows).sum(-1).mean(-1).ravel()
    ordinary = np.where(special, -1.0, np.nan_to_num(rows))
    best = np.where(ordinary.max(-1) > 0, ordinary.argmax(-1) - places, REACH + 1)
    counts = np.stack([(best == offset).mean(-1).ravel() for offset in range(-REACH, REACH + 1)], axis=-1)
    return _with_roles(frame.assign(best_offset=counts.argmax(-1) - REACH, best_offset_share=counts.max(-1)))


def _label(maps: AttentionMaps, name: str) -> str:
    first = name == "sink_share" and not maps.special_keys.any()
    return "on the first token" if first else COLUMNS[name][0]


def _dropped(maps: AttentionMaps) -> np.ndarray:
    readers, special = ~maps.special_queries.numpy(), maps.special_keys.numpy()
    return _numpy(maps)[:, :, readers][..., special].sum(-1).mean(-1).astype(np.float32)


def _source(statistics: pd.DataFrame | None) -> str:
    if statistics is None:
        return "Numbers of this text."
    tokens = f" of {int(statistics['tokens'].max()):,} tokens" if "tokens" in statistics else ""
    return f"Numbers: means over a corpus{tokens}."


def _fallback(maps: AttentionMaps, layer: int, head: int, row: int, title: str, alt: str) -> str:
    """The opened head as a picture and its opened row as a table, for where scripts do not run."""
    weights = maps.head(layer, head).detach().cpu().double().numpy()
    amount = palette()["amount"]["light"]
    best = np.argsort(-np.nan_to_num(weights[row]), kind="stable")[:5]
    rows = [[maps.queries[row], *(f"{maps.keys[k]} {weights[row, k]:.2f}" for k in best)]]
    head_row = ["from (query)", *(f"key {i + 1}" for i in range(len(best)))]
    caption = f"Layer {layer}, head {head}: row = query (from), column = key (to); darker is more."
    style = "width:18em;max-width:100%;border:1px solid #888"
    return (
        (f"<p><strong>{escape(title)}</strong></p>" if title else "")
        + f'<img alt="{escape(alt)}" style="{style}" src="{picture(weights, amount)}"><p>{caption}</p>'
        + table(head_row, rows)
    )
