"""The search-explorer: what a search finds for a query, with all heads of a model and with some of them out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

import numpy as np
import torch
from torch import Tensor

from utils.elements import Figure, palette, rich, table
from utils.payload import SVG, data_uri
from utils.search_index import Pair

HINT = "Choose a query, then take heads out, and compare the places."
SHOWN, WORDS = 5, 16  # passages of a result, words of each that are shown


def search_explorer(
    found: Mapping[str, tuple[Tensor, Tensor]],
    pairs: Sequence[Pair],
    *,
    queries: Sequence[int],
    condition: str,
    title: str,
    alt: str,
) -> Figure:
    """The first passages of some queries under each condition, with their cosines and their places with all heads.

    found: name of a condition → embeddings of all queries and all passages of ``pairs``, each (pairs, width) of length
    1; the first condition is the model with all heads. queries: which pairs can be chosen. condition: shown first.
    Raises ValueError for what does not fit.
    """
    if condition not in found:
        raise ValueError(f"no condition is called {condition!r}: there are {', '.join(map(repr, found)) or 'none'}")
    if sizes := {len(side) for both in found.values() for side in both} - {len(pairs)}:
        raise ValueError(f"{len(pairs)} pairs need as many embeddings of each side, got {sorted(sizes)}")
    if not queries or not all(0 <= number < len(pairs) for number in queries):
        raise ValueError(f"queries must be numbers of pairs, 0 to {len(pairs) - 1}, at least one: got {list(queries)}")
    chosen = list(queries)
    cosines = torch.stack([q[chosen] @ p.T for q, p in found.values()])  # (conditions, queries, passages)
    order = cosines.argsort(dim=-1, descending=True)
    places = order.argsort(dim=-1) + 1
    k = min(SHOWN, len(pairs))
    shown = sorted(set(order[..., :k].flatten().tolist()))
    number = torch.zeros(len(pairs), dtype=torch.long)
    number[shown] = torch.arange(len(shown))
    data = {
        "condition": list(found).index(condition),
        "conditions": list(found),
        "hint": HINT,
        "own": [shown.index(each) if each in shown else -1 for each in chosen],
        "queries": [pairs[each][0] for each in chosen],
        "query": 0,
        "texts": [_short(pairs[each][1]) for each in shown],
        "title": title,
        "total": len(pairs),
    }
    right = torch.tensor(chosen)[None, :, None].expand(len(found), -1, 1)
    arrays = {
        "before": _short_numbers(places[:1].expand_as(places).gather(-1, order[..., :k])),
        "cosines": cosines.gather(-1, order[..., :k]).numpy().astype(np.float32),
        "order": _short_numbers(number[order[..., :k]]),
        "places": _short_numbers(places.gather(-1, right)[..., 0]),
    }
    return Figure("search-explorer", data, alt, _fallback(data, arrays, alt), arrays)


def _fallback(data: dict, arrays: dict, alt: str) -> str:
    """What is shown first, and the place of every right passage, for where scripts do not run."""
    rows = [[name, *map(str, arrays["places"][:, q])] for q, name in enumerate(data["queries"])]
    first, condition = data["queries"][data["query"]], data["conditions"][data["condition"]]
    return (
        f"<p><strong>{rich(data['title'])}</strong></p>"
        f"<p>First passages for “{escape(first)}”, {escape(condition)}: cosine, and place with all heads.</p>"
        f'<p><img alt="{escape(alt)}" src="{_picture(data, arrays)}"></p>'
        f"<p>Place of the right passage of {data['total']}:</p>{table(['query', *data['conditions']], rows)}"
    )


def _picture(data: dict, arrays: dict) -> str:
    """The cosines of the passages that are shown first as bars, in a data URI."""
    here, right = (data["condition"], data["query"]), data["own"][data["query"]]
    columns = (arrays[name][here] for name in ("order", "cosines", "before"))
    bars = ""
    for i, (text, cosine, before) in enumerate(zip(*columns, strict=True)):
        words = f"{cosine:.2f}, with all heads {before}{': right' if text == right else ''}"
        bars += (
            f'<text x="4" y="{26 * i + 19}">{i + 1}.</text><text x="176" y="{26 * i + 19}">{words}</text>'
            f'<rect x="26" y="{26 * i + 6}" width="{140 * max(float(cosine), 0):.0f}" height="16"/>'
        )
    height, colour = 26 * len(arrays["order"][here]) + 4, palette()["query"]["light"]
    return data_uri(
        f'<svg xmlns="{SVG}" width="360" height="{height}"><rect width="360" height="{height}" fill="#fff"/>'
        f'<g fill="{colour}" font-family="sans-serif" font-size="14">{bars}</g></svg>'.encode(),
        "image/svg+xml",
    )


def _short_numbers(values: Tensor) -> np.ndarray:
    return values.numpy().astype(np.int16)


def _short(text: str) -> str:
    words = text.split()
    return " ".join(words[:WORDS]) + (" …" if len(words) > WORDS else "")
