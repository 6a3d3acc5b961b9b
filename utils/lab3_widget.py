"""The live box of Lab 3: remove heads of MiniLM and search at once. What it does is a plain function with a test."""

from __future__ import annotations

from html import escape

import ipywidgets
from torch import nn

from utils import pruning_costs as costs
from utils.pruned_retrieval import split_pairs, vectors
from utils.pruning import prune
from utils.search_index import ranks, recall

FEW = 40  # pairs that are searched at once


def pruned_search(model: nn.Module, tokenizer, order: str, kept: int) -> str:
    """What a search finds with ``kept`` heads left by a stored order: a sentence, also for what cannot be done."""
    known = costs.orders()
    if order not in known:
        return f"There is no order {order!r}: take one of {', '.join(known)}."
    if isinstance(kept, bool) or not isinstance(kept, int) or not 0 <= kept <= costs.TOTAL:
        return f"Heads kept must be a whole number from 0 to {costs.TOTAL}, got {kept!r}."
    pairs = split_pairs().judged[:FEW]
    new = vectors(prune(model, known[order][: costs.TOTAL - kept]).eval(), tokenizer, pairs)
    old = vectors(model, tokenizer, pairs)
    rebuilt, mixed = recall(ranks(*new)), recall(ranks(new.queries, old.passages))
    size = costs.predicted_parameters(kept) / 1e6
    return (
        f"{kept} heads by {order}: recall@1 {rebuilt:.2f} with the index rebuilt, {mixed:.2f} with the old one "
        f"(whole model {recall(ranks(*old)):.2f}; {FEW} passages); {size:.1f} M parameters."
    )


class _Box(ipywidgets.VBox):
    """A box whose plain text says what to do, where the widget itself cannot be shown."""

    def __repr__(self) -> str:
        return "A box to remove heads and search: run this cell in JupyterLab or Notebook."


def pruning_box(model: nn.Module, tokenizer) -> ipywidgets.VBox:
    """An order, a number of heads, a button, and what the search finds then. Nothing is computed before the button."""
    order = ipywidgets.Dropdown(options=list(costs.orders()), description="order")
    kept = ipywidgets.IntSlider(value=36, min=0, max=costs.TOTAL, description="heads kept", continuous_update=False)
    button = ipywidgets.Button(description="Remove and search", button_style="primary")
    message = ipywidgets.HTML()

    def show(_=None) -> None:
        message.value = "…"
        message.value = escape(pruned_search(model, tokenizer, order.value, kept.value))

    button.on_click(show)
    return _Box([ipywidgets.HBox([order, kept, button]), message])
