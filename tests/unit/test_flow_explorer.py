"""The figure of one token's flow: true to its numbers, deterministic, escaped, and strict about shapes."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch
from figure_html import data_of

from utils.attention import rollout
from utils.figures import FlowView, flow_explorer, rollout_view
from utils.payload import unpack

TOKENS = ["[CLS]", "</script>", "<img onerror=alert(1)>", "나는", "key", "[SEP]"]
LAYERS, N = 3, len(TOKENS)
TEXTS = ("changes", "is changed by", "change")


def amounts(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).random((LAYERS + 1, N, N))


def maps() -> torch.Tensor:
    return torch.softmax(torch.randn(LAYERS, N, N, generator=torch.Generator().manual_seed(0)), -1)


def figure(**options):
    views = {
        "measured": FlowView(amounts(), amounts(1), *TEXTS),
        "rollout": rollout_view(maps().numpy(), 0.5, "a", "b"),
    }
    ends = [True] + [False] * (N - 2) + [True]
    options = {"special": ends, "token": 4, "alt": "Flow", "title": "<b>"} | options
    return flow_explorer(TOKENS, views, maps().numpy(), **options)


def test_the_rollout_view_is_rollout_and_its_two_sides_meet():
    view = rollout_view(maps().numpy(), 0.7, "a", "b")
    rolled = rollout(maps()[:, None], residual=0.7)
    assert np.allclose(view.forward[1:], rolled.numpy(), atol=1e-6)
    assert np.allclose(view.forward[0], np.eye(N)) and np.allclose(view.backward[-1], np.eye(N))
    for level in range(LAYERS + 1):
        assert np.allclose(view.backward[level] @ view.forward[level], rolled[-1].numpy(), atol=1e-6)


def test_equal_input_gives_equal_output_and_the_numbers_come_back():
    assert figure().html() == figure().html()
    stored = unpack(figure().html())
    assert np.allclose(stored["from"][0], amounts(), atol=1e-6)
    assert np.allclose(stored["to"][0], amounts(1), atol=1e-6)
    assert stored["edges"].shape == (LAYERS, N, N)


def test_labels_are_escaped_and_the_fallback_can_be_read():
    html = figure().html()
    assert html.count("</script>") == html.count("<script") == 2 and "<img onerror" not in html and "<b>" not in html
    plain = re.sub(r"<script.*?</script>", "", html, flags=re.DOTALL)
    assert '<img alt="Flow"' in plain and "<table>" in plain
    assert f"{amounts()[-1, 3, 4]:.2f}" in plain
    assert f"{amounts(1)[0, 4, 3]:.2f}" in re.sub(r"<script.*?</script>", "", figure(side="to").html(), flags=re.DOTALL)


def test_it_opens_as_told():
    data = data_of(figure(side="to"))
    assert data["open"] == {"side": "to", "token": 4, "view": 0}
    assert data["special"] == [1, 0, 0, 0, 0, 1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"token": 9}, "tokens 0 to 5"),
        ({"side": "left"}, '"from" or "to"'),
    ],
)
def test_bad_options_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        figure(**change)


def test_bad_shapes_are_refused():
    good = FlowView(amounts(), amounts(), *TEXTS)
    for tokens, view, edges, message in (
        (TOKENS * 5, good, maps(), "1 to 24"),
        (TOKENS, good, maps()[:, :2], "edges must have"),
        (TOKENS, good._replace(forward=amounts()[1:]), maps(), "amounts ≥ 0"),
        (TOKENS, good._replace(backward=-amounts()), maps(), "amounts ≥ 0"),
    ):
        with pytest.raises(ValueError, match=message):
            flow_explorer(tokens, {"measured": view}, np.asarray(edges), alt="Flow")
