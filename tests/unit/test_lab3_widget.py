"""The live box of Lab 3: its callback is a plain function that answers in a sentence, whatever it is given."""

from __future__ import annotations

import pytest

from utils.lab3_widget import pruned_search, pruning_box


def test_the_box_says_what_a_search_finds(minilm):
    said = pruned_search(*minilm, "signed", 72)
    assert "72 heads by signed" in said and "22.7 M parameters" in said
    rebuilt, old = (said.split(f" with the {word}")[0].rsplit(" ", 1)[1] for word in ("index rebuilt", "old one"))
    assert rebuilt == old and float(rebuilt) > 0.5


@pytest.mark.parametrize(("order", "kept"), [("best", 3), ("signed", -1), ("signed", 73), ("signed", True)])
def test_what_cannot_be_done_is_said(minilm, order, kept):
    assert "got" in pruned_search(*minilm, order, kept) or "no order" in pruned_search(*minilm, order, kept)


def test_the_button_searches_and_nothing_runs_before(minilm, monkeypatch):
    calls = []
    monkeypatch.setattr("utils.lab3_widget.pruned_search", lambda *a: calls.append(a) or "<found>")
    box = pruning_box(*minilm)
    assert not calls and "JupyterLab" in repr(box)
    row, message = box.children
    row.children[2].click()
    assert calls[0][2:] == ("absolute", 36) and message.value == "&lt;found&gt;"
