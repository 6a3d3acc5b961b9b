"""Heads switched off by hand: what a search finds, and what a translator writes. Widgets for Lab 2.

What a widget does is a plain function with a test; beside the widget stands a figure that needs no kernel.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from html import escape

import ipywidgets
from torch import nn

from utils.architectures import KINDS
from utils.heads import Head, ablated, heads_of
from utils.search_index import Pair, embed
from utils.translator import translate

SHOWN = 5  # passages of a result
NAMED = re.compile(rf"(?:({'|'.join(KINDS)})\s+)?(\d+|\*)\.(\d+|\*)", re.ASCII)
HINT = "Write layer.head: 5.3 is one head, 5.* a layer, *.* all of them"


def heads_named(model: nn.Module, text: str) -> list[Head]:
    """The heads that a reader names: "0.2, 5.*" or, with several attention types, "cross 5.*, encoder 0.1".

    A star stands for every layer or head. A name without a type means the first type that the model has. Raises
    ValueError for what is no such name, and for heads that the model does not have.
    """
    heads = heads_of(model)
    chosen: dict[Head, None] = {}
    for part in filter(None, (each.strip() for each in text.split(","))):
        match = NAMED.fullmatch(part)
        if not match:
            raise ValueError(f"{part!r} names no head. {HINT}; commas between several.")
        kind = match[1] or heads[0].kind
        layer, head = (None if each == "*" else int(each) for each in match.group(2, 3))
        found = [
            each for each in heads if each.kind == kind and layer in (None, each.layer) and head in (None, each.head)
        ]
        if not found:
            raise ValueError(f"{part!r}: the model has no such {kind} head.")
        chosen |= dict.fromkeys(found)
    return list(chosen)


def found_passages(
    model: nn.Module, tokenizer, pairs: Sequence[Pair], query: str, out: Sequence[Head] = (), k: int = SHOWN
) -> list[tuple[int, float]]:
    """(number of the passage, cosine) of the ``k`` nearest passages of ``pairs`` to a query, with some heads out."""
    with ablated(model, out):
        vectors = embed(model, tokenizer, [query, *(passage for _, passage in pairs)])
    cosines = vectors[1:] @ vectors[0]
    best = cosines.argsort(descending=True)[:k]
    return [(int(number), float(cosines[number])) for number in best]


def search_answer(model: nn.Module, tokenizer, pairs: Sequence[Pair], query: str, out: str) -> str:
    """HTML: the passages found with the named heads out, beside where they stood with all heads.

    Never raises for what a reader can type: an empty query or a wrong name gives a sentence that says so.
    """
    if not query.strip():
        return "<p>Write a query first.</p>"
    try:
        heads = heads_named(model, out)
        before = {number: place for place, (number, _) in enumerate(_all(model, tokenizer, pairs, query), start=1)}
        after = found_passages(model, tokenizer, pairs, query, heads)
    except (TypeError, ValueError) as error:
        return f"<p>{escape(str(error))}</p>"
    own = {asked: number for number, (asked, _) in enumerate(pairs)}.get(query)
    rows = [
        f"<tr><td>{place}</td><td>{before[number]}</td><td>{cosine:.2f}</td>"
        f"<td>{'<b>its own: </b>' if number == own else ''}{escape(_short(pairs[number][1]))}</td></tr>"
        for place, (number, cosine) in enumerate(after, start=1)
    ]
    head = "<tr><th>place</th><th>with all heads</th><th>cosine</th><th>passage</th></tr>"
    return f"<p>{len(heads)} of {len(heads_of(model))} heads out.</p><table>{head}{''.join(rows)}</table>"


def translation_answer(model: nn.Module, tokenizer, text: str, out: str) -> str:
    """HTML: the translation with all heads, and with the named ones out. Never raises for what a reader can type."""
    if not text.strip():
        return "<p>Write a sentence first.</p>"
    try:
        heads = heads_named(model, out)
        whole = translate(model, tokenizer, [text])[0]
        with ablated(model, heads):
            less = translate(model, tokenizer, [text])[0]
    except (TypeError, ValueError) as error:
        return f"<p>{escape(str(error))}</p>"
    same = "the same" if less == whole else escape(less) or "nothing"
    return f"<p>All heads: {escape(whole)}</p><p>{len(heads)} heads out: {same}</p>"


def search_switches(model: nn.Module, tokenizer, pairs: Sequence[Pair], query: str, out: str = "") -> ipywidgets.VBox:
    """A box for a query, a box for the heads that go out, a button, and what is found."""
    return _switches("Query", query, out, lambda text, names: search_answer(model, tokenizer, pairs, text, names))


def translation_switches(model: nn.Module, tokenizer, text: str, out: str = "") -> ipywidgets.VBox:
    """A box for a sentence, a box for the heads that go out, a button, and both translations."""
    return _switches("Sentence", text, out, lambda text, names: translation_answer(model, tokenizer, text, names))


class _Switches(ipywidgets.VBox):
    """A box whose plain text says what to do, where the widget itself cannot be shown."""

    def __repr__(self) -> str:
        return "Boxes to switch heads off: run this cell in JupyterLab or Notebook."


def _switches(name: str, text: str, out: str, answer: Callable[[str, str], str]) -> ipywidgets.VBox:
    box = ipywidgets.Textarea(value=text, description=name, layout={"width": "100%"}, rows=2)
    heads = ipywidgets.Text(value=out, description="Heads out", placeholder=HINT, layout={"width": "100%"})
    button = ipywidgets.Button(description="Run", button_style="primary")
    result = ipywidgets.HTML()

    def show(_=None) -> None:
        result.value = answer(box.value, heads.value)

    button.on_click(show)
    show()
    return _Switches([box, heads, button, result])


def _all(model: nn.Module, tokenizer, pairs: Sequence[Pair], query: str) -> list[tuple[int, float]]:
    return found_passages(model, tokenizer, pairs, query, k=len(pairs))


def _short(text: str, words: int = 14) -> str:
    parts = text.split()
    return " ".join(parts[:words]) + (" …" if len(parts) > words else "")
