"""Live exploration with a kernel: widgets for the labs. What a widget does is a plain function with a test.

nbval does not look inside widgets, and a built page has no kernel: a notebook keeps a static twin beside each widget.
"""

from __future__ import annotations

from html import escape
from typing import NamedTuple

import ipywidgets
from torch import nn

from utils.attention import attention_maps
from utils.attention.extraction import encoder_decoder, longest
from utils.attention.tokens import encode
from utils.elements import Figure
from utils.figures import attention_explorer

MAX_TOKENS = 64  # more make the figure slow to read and the notebook large


class View(NamedTuple):
    """What a sentence gives: a figure and what the reader should know; no figure if the sentence cannot be shown."""

    figure: Figure | None
    message: str


def sentence_view(model: nn.Module, tokenizer, text: str, *, words: bool = False, special: bool = True) -> View:
    """The attention explorer of one sentence, opened on words or pieces, with or without special tokens.

    Never raises for what a reader can type: an empty sentence, one the tokenizer reads nothing of, or one of more than
    ``MAX_TOKENS`` tokens gives a message and no figure. For an encoder–decoder the encoder's maps are shown.
    """
    if not text.strip():
        return View(None, "Write a sentence first.")
    try:
        count = len(encode(tokenizer, text.strip()))
        limit = min(MAX_TOKENS, longest(model, tokenizer) or MAX_TOKENS)
        if count > limit:
            return View(None, f"This text has {count} tokens, and at most {limit} are drawn here: shorten it.")
        # The encoder does not see the target; giving one saves a translation.
        target = text.strip() if encoder_decoder(model) else None
        found = attention_maps(model, tokenizer, text.strip(), target)
        maps = found.get("encoder", next(iter(found.values())))
        alone = bool(maps.special_keys.all())
        figure = attention_explorer(maps, title=text.strip(), words=words, special=special or alone)
    except (TypeError, ValueError) as error:
        return View(None, f"This text cannot be shown: {error}")
    return View(figure, " ".join(f"{notice}." for notice in maps.notices) or f"{count} tokens.")


class _Explorer(ipywidgets.VBox):
    """A box whose plain text says what to do, where the widget itself cannot be shown."""

    def __repr__(self) -> str:
        return "A box for your own sentence: run this cell in JupyterLab or Notebook."


def sentence_explorer(model: nn.Module, tokenizer, text: str = "") -> ipywidgets.VBox:
    """A box for a sentence, two switches, a button, and the explorer of what was written. Starts with ``text``."""
    box = ipywidgets.Textarea(value=text, description="Sentence", layout={"width": "100%"}, rows=2)
    words = ipywidgets.Checkbox(value=False, description="words instead of pieces")
    special = ipywidgets.Checkbox(value=True, description="with special tokens")
    button = ipywidgets.Button(description="Show its heads", button_style="primary")
    message = ipywidgets.HTML()
    output = ipywidgets.Output()

    def show(_=None) -> None:
        view = sentence_view(model, tokenizer, box.value, words=words.value, special=special.value)
        message.value = escape(view.message)
        data = view.figure._repr_mimebundle_() if view.figure else None
        output.outputs = ({"output_type": "display_data", "data": data, "metadata": {}},) if data else ()

    button.on_click(show)
    show()
    return _Explorer([box, ipywidgets.HBox([words, special, button]), message, output])
