"""The cross-explorer's data, fallback and refusals."""

from __future__ import annotations

from dataclasses import replace
from html import escape

import pytest
import torch
from figure_html import data_of

from utils.alignment import Link
from utils.attention.maps import AttentionMaps
from utils.cross_explorer import cross_explorer
from utils.payload import unpack

SIZE = {"layer": 1, "head": 0, "word": "b", "alt": "A cross map."}


def maps() -> AttentionMaps:
    weights = torch.rand(2, 3, 4, 5, generator=torch.Generator().manual_seed(0)).softmax(-1)
    words = ["<s>", "a", "b", "</script>"], ["one", "two", "three", "four", "</s>"]
    special = torch.tensor([True, False, False, False])
    return AttentionMaps(weights, *words, kind="cross", special_queries=special)


def test_it_is_deterministic_escaped_and_holds_weights_and_links():
    links = [Link(1, (0, 2), "x", "y")]
    html = cross_explorer(maps(), links, title="A & B", **SIZE).html()
    assert html == cross_explorer(maps(), links, title="A & B", **SIZE).html()
    assert html.count("</script>") == 2 and "A &amp; B" in html
    assert torch.allclose(torch.tensor(unpack(html)["weights"]).float(), maps().weights, atol=0.005)
    data = data_of(html)
    assert data["links"] == [[1, 0], [1, 2]] and data["target"][data["word"]] == "b" and len(data["source"]) == 5


@pytest.mark.parametrize("shift", [0, 1])
def test_the_fallback_names_the_row_that_is_meant(shift):
    html = cross_explorer(maps(), shift=shift, **SIZE).html()
    best = maps().head(1, 0)[1 + shift]
    assert f"{escape(maps().keys[int(best.argmax())])} {best.max():.2f}" in html.split('scope="row">b<')[1][:60]


@pytest.mark.parametrize(
    ("given", "options", "error", "message"),
    [
        ({"cross": None}, {}, TypeError, "AttentionMaps are needed"),
        (replace(maps(), kind="encoder"), {}, ValueError, "cross maps"),
        (maps(), {"word": "c"}, ValueError, "no target piece"),
        (maps(), {"shift": 2}, ValueError, "shift is 0"),
        (maps(), {"head": 3}, ValueError, "head 3 does not exist"),
    ],
)
def test_what_does_not_fit_is_refused(given, options, error, message):
    with pytest.raises(error, match=message):
        cross_explorer(given, **(SIZE | options))
