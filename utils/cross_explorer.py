"""The cross-explorer: cross-attention of one pair of sentences, source by target, with the shift by one on a switch."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import torch

from utils.alignment import Link
from utils.attention.maps import AttentionMaps
from utils.elements import Figure, palette, table
from utils.payload import picture, weights_to_codes

LARGEST = 40  # pieces a side: more do not fit a page
SHIFTS = ("is about to write", "has just read")
HINT = "Choose a head; point at a word of either side, tap it, or use the arrow keys."


def cross_explorer(
    maps: AttentionMaps,
    links: Sequence[Link] = (),
    *,
    layer: int,
    head: int,
    word: str,
    shift: int = 0,
    reference: str = "IBM Model 1",
    title: str = "",
    alt: str,
) -> Figure:
    """Lines and a heat map of one cross head at a time; the reader chooses head, word and row.

    maps: ``attention_maps(model, tokenizer, source, target)["cross"]``; its first row is that of the start token. A
    target token is shown with the row that is about to write it (shift 0) or has just read it (shift 1). links: ringed
    in the map, named by ``reference``. layer, head, word (a target piece) and shift say how it opens.
    Raises TypeError for maps that are none, ValueError for another kind, and for what does not exist.
    """
    if not isinstance(maps, AttentionMaps):
        raise TypeError(f'AttentionMaps are needed, attention_maps(…)["cross"], got {type(maps).__name__}')
    if maps.kind != "cross" or not bool(maps.special_queries[0]):
        raise ValueError(f"cross maps whose first row is the start token are needed, got kind {maps.kind!r}")
    weights = maps.head(layer, head)
    target, source = list(maps.queries[1:]), list(maps.keys)
    if max(len(target), len(source)) > LARGEST:
        raise ValueError(f"{len(target)} by {len(source)} pieces are too many: at most {LARGEST} a side")
    if word not in target:
        raise ValueError(f"no target piece is called {word!r}: they are {', '.join(target)}")
    if shift not in (0, 1):
        raise ValueError(f"shift is 0 (the row {SHIFTS[0]} the word) or 1 (it {SHIFTS[1]} it), got {shift!r}")
    if not torch.isfinite(maps.weights).all():
        raise ValueError("some heads were removed and have no weights: take the maps of the whole model")
    data = {
        "head": head,
        "hint": HINT,
        "layer": maps.layers.index(layer),
        "layers": list(maps.layers),
        "links": [[link.row, piece] for link in links for piece in link.pieces],
        "reference": reference,
        "shift": shift,
        "shifts": list(SHIFTS),
        "source": source,
        "target": target,
        "title": title,
        "word": target.index(word),
    }
    arrays = {"weights": weights_to_codes(maps.weights.detach().cpu().double().numpy())}
    return Figure("cross-explorer", data, alt, _fallback(weights, source, target, data, alt), arrays)


def _fallback(weights: torch.Tensor, source: list[str], target: list[str], data: dict, alt: str) -> str:
    """The opening head as a picture, and for each target piece the source piece that it reads most."""
    shift = data["shift"]
    shown = weights[shift : len(target) + shift].detach().cpu().double().numpy()
    rows = [[word, f"{source[row.argmax()]} {row.max():.2f}"] for word, row in zip(target, shown, strict=True)]
    heading = f"<p><strong>{escape(data['title'])}</strong></p>" if data["title"] else ""
    caption = f"Layer {data['layers'][data['layer']]}, head {data['head']}: row = target, column = source."
    image = f'<img alt="{escape(alt)}" style="max-width:100%" src="{picture(shown, palette()["cross"]["light"])}">'
    listed = table([f"row that {SHIFTS[shift]}", "reads most"], rows)
    return f"{heading}{image}<p>{caption}</p>{listed}"
