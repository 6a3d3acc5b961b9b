"""The pruning-explorer's data, masks, fallback and refusals."""

from __future__ import annotations

import base64
import re

import numpy as np
import pytest
from figure_html import data_of

from utils.elements import script
from utils.heads import Head
from utils.payload import unpack
from utils.pruning_explorer import ROLES, PruningPath, head_masks, pruning_explorer

ROWS, HEADS = 3, 5
WORDS = {"metric": "BLEU", "higher_is_better": True, "alt": "Curves and a grid"}


def nested(seed: int = 0) -> np.ndarray:
    """Masks of a random order: 15, 10, 5, 0 heads."""
    order = np.random.default_rng(seed).permutation(ROWS * HEADS)
    masks = np.ones((4, ROWS * HEADS), dtype=bool)
    for step in range(4):
        masks[step, order[: 5 * step]] = False
    return masks.reshape(4, ROWS, HEADS)


def path(name: str = "order", **options) -> PruningPath:
    given = {"kept": [15, 10, 5, 0], "value": [30.0, 28.5, 20.0, 1.25], "masks": nested()} | options
    return PruningPath(name, **given)


def null(**options) -> PruningPath:
    spread = {"low": [30, 20, 9, np.nan], "high": [30, 24, 13, np.nan]}
    return PruningPath("random", [15, 10, 5, 0], [30, 22, 11, 1.25], null=True, **(spread | options))


def figure(*paths, **options):
    return pruning_explorer(list(paths) or [path(), null()], **({"kept": 10} | WORDS | options))


def test_it_is_deterministic_and_its_numbers_are_coded():
    html = figure(title="Heads & BLEU").html()
    assert html == figure(title="Heads & BLEU").html()
    assert "Heads &amp; BLEU" in html
    data = data_of(html)
    assert data["path"] == 0 and data["step"] == 1 and data["shape"] == [ROWS, HEADS]
    assert not {"kept", "value", "masks"} & set(data)
    arrays = unpack(html)
    assert arrays["kept"].tolist() == [15, 10, 5, 0] * 2
    assert arrays["value"].tolist() == [30.0, 28.5, 20.0, 1.25, 30, 22, 11, 1.25]
    assert arrays["low"][:3].tolist() == [30, 20, 9] and np.isnan(arrays["low"][3])
    assert arrays["reference"].tolist() == [30.0]


@pytest.mark.parametrize(("rows", "heads"), [(3, 5), (6, 8), (1, 16), (12, 8), (1, 1), (4, 4), (24, 16)])
def test_masks_can_be_read_back_bit_by_bit(rows, heads):
    rng = np.random.default_rng(rows)
    masks = np.stack([np.ones((rows, heads), bool), rng.random((rows, heads)) < 0.4, np.zeros((rows, heads), bool)])
    masks[1, 0, 0] = rows * heads == 1 or masks[1, 0, 0]
    masks = masks[:1] if rows * heads == 1 else masks
    kept = masks.sum((1, 2)).tolist()
    shown = figure(PruningPath("a", kept, kept, masks), kept=kept[-1])
    coded = unpack(shown.html())["masks"].reshape(len(kept), -1)
    assert coded.dtype == np.int16 and coded.shape[1] == -(-rows * heads // 16)
    back = [[row[head >> 4] >> (head & 15) & 1 for head in range(rows * heads)] for row in coded.tolist()]
    assert (np.array(back, dtype=bool).reshape(masks.shape) == masks).all()


def test_steps_are_sorted_with_everything_that_belongs_to_them():
    masks, more = nested(), {"parameters": [4, 3, 2, 1]}
    turned = [2, 0, 3, 1]
    given = path(
        kept=[[15, 10, 5, 0][i] for i in turned],
        value=[[30.0, 28.5, 20.0, 1.25][i] for i in turned],
        masks=masks[turned],
        low=np.array([29, 28, 19, 1])[turned],
        high=np.array([31, 29, 21, 2])[turned],
        more={"parameters": np.array(more["parameters"])[turned]},
    )
    assert given.kept.tolist() == [15, 10, 5, 0] and given.value.tolist() == [30.0, 28.5, 20.0, 1.25]
    assert (given.masks == masks).all() and given.low.tolist() == [29, 28, 19, 1]
    assert given.more["parameters"].tolist() == [4, 3, 2, 1]
    shown = figure(given)
    assert unpack(shown.html())["more"].tolist() == [4, 3, 2, 1]
    assert data_of(shown.html())["paths"][0]["more"] == ["parameters"]


def test_the_masks_of_heads():
    sets = [[(0, 0), (1, 2)], [(1, 2)], []]
    masks = head_masks(sets, 3, 2)
    assert masks.shape == (3, 2, 3) and masks.sum((1, 2)).tolist() == [2, 1, 0]
    assert masks[0, 0, 0] and masks[0, 1, 2] and masks[1, 1, 2]
    groups = {"encoder": 2, "cross": 1}
    masks = head_masks([[Head(1, 0, "encoder"), Head(0, 2, "cross")]], 3, groups)
    assert np.argwhere(masks[0]).tolist() == [[1, 0], [2, 2]]
    assert (head_masks([[Head(1, 0, "encoder")]], 3, {"encoder": 2}) == head_masks([[[1, 0]]], 3, 2)).all()
    for bad, grid in (((2, 0), 2), ((0, 3), 2), ((-1, 0), 2), ((0, 0), groups), (Head(0, 0, "decoder"), groups)):
        with pytest.raises(ValueError, match="is not in the grid: it has"):
            head_masks([[bad]], 3, grid)
    with pytest.raises(ValueError, match="a pair of numbers, got 3"):
        head_masks([[3]], 3, 2)
    with pytest.raises(ValueError, match="from 1 on, got \\[3, 0\\]"):
        head_masks([], 3, 0)


def test_roles_are_coded_and_names_of_head_roles_are_understood():
    roles = np.full((ROWS, HEADS), "unlabelled", dtype=object)
    roles[0, :5] = ["previous token", "next token", "syntactic", "sink", "rare"]
    codes = unpack(figure(roles=roles).html())["roles"]
    assert [ROLES[code] for code in codes[0]] == ["positional", "positional", "syntactic", "sink", "rare"]
    assert "roles" not in unpack(figure().html())
    written = re.findall(r'\["([a-z]+)", "[a-z]*"', script("pruning-explorer").split("ROLES = ")[1].split(".map")[0])
    assert tuple(written) == ROLES


def test_the_fallback_shows_the_opening_step():
    fallback = figure(reference=31, path="order").fallback
    assert "order: BLEU by the heads kept; the whole model: 31" in fallback
    assert '<th scope="row">10 (shown)</th><td>28.5</td>' in fallback
    picture = base64.b64decode(re.search('base64,([^"]+)', fallback).group(1)).decode()
    assert picture.count("<rect x") == 10 and picture.count("<path") == 5
    assert "10 of 15: filled" in fallback


def test_names_cannot_break_out():
    name = "</script><b>x"
    html = figure(path(name), title=name, metric=name, spread=name, kept=5).html()
    assert html.count("</script>") == 2 and "<b>" not in html.split("</script>", 1)[1].split("<script type", 1)[0]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: path(" "), "a path needs a name"),
        (lambda: path(kept=[15, 10, 10, 0]), "10 kept heads are there twice"),
        (lambda: path(kept=[15, 10, 5.5, 0]), "numbers of heads, got 5.5"),
        (lambda: path(kept=[15, 10, 5, -1]), "numbers of heads, got -1"),
        (lambda: path(kept=[]), "got 'no step'"),
        (lambda: path(value=[1, 2, 3]), r"value must be a number for each of the 4 steps, got the shape \(3,\)"),
        (lambda: path(value=[1, 2, 3, "x"]), "value must be a number for each of the 4 steps"),
        (lambda: path(value=[1, 2, 3, np.nan]), "value must be finite"),
        (lambda: path(low=[1, 2, 3, 4]), "needs both low= and high="),
        (lambda: path(low=[1, 2, 3, 4], high=[1, 2, 3, 3]), "low must not be above high"),
        (lambda: path(masks=nested()[:3]), r"masks must be \(4 steps, rows, heads\), got the shape \(3, 3, 5\)"),
        (lambda: path(masks=nested() * 0.5), "true where a head is kept"),
        (lambda: path(kept=[15, 10, 6, 0]), "step 2: kept says 6 heads, the mask holds 5"),
        (lambda: path(more={"ms": [1, 2]}), "ms must be a number for each of the 4 steps"),
        (lambda: pruning_explorer([], kept=1, **WORDS), "one or more PruningPath, got none"),
        (lambda: figure({"kept": [1]}), "one or more PruningPath, got dict"),
        (lambda: figure(path(), path()), "two paths have the same name"),
        (lambda: figure(null()), "no masks at all"),
        (lambda: figure(path(), path("b", kept=[4], value=[1], masks=np.ones((1, 2, 2)))), "the same rows and heads"),
        (lambda: figure(path(), PruningPath("b", [16], [1])), "'b' keeps 16 heads, the grid has 15"),
        (lambda: figure(PruningPath("b", [2000], [1], np.ones((1, 40, 50))), kept=2000), "2000 heads is too large"),
        (lambda: figure(kept=11), "no step with 11 heads: it has 15, 10, 5, 0"),
        (lambda: figure(path="gates"), "no path is called 'gates': there are 'order', 'random'"),
        (lambda: figure(path=2), "from 0 to 1, got 2"),
        (lambda: figure(path=1), "has no masks and cannot be shown first"),
        (lambda: figure(groups={"encoder": 2}), "groups must split the 3 rows"),
        (lambda: figure(groups={"encoder": 3, "cross": 0}), "groups must split the 3 rows"),
        (lambda: figure(rows=["a"]), "rows must be 3 labels"),
        (lambda: figure(roles=[["sink"]]), "roles must be 3 rows of 5 heads"),
        (lambda: figure(roles=np.full((ROWS, HEADS), "boss", dtype=object)), "no role is called 'boss'"),
        (lambda: figure(reference=float("nan")), "reference must be the BLEU of the whole model"),
        (lambda: figure(metric=""), "metric must say what the values are"),
        (lambda: figure(alt=" "), "needs an alt text"),
    ],
)
def test_what_does_not_fit_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_without_the_whole_model_there_is_no_reference():
    shown = figure(path(kept=[10, 5, 0], value=[3, 2, 1], masks=nested()[1:]), kept=5)
    assert "reference" not in unpack(shown.html()) and "whole model" not in shown.fallback


def test_a_figure_of_96_heads_is_small():
    order = np.random.default_rng(0).permutation(96)
    masks = np.ones((97, 96), dtype=bool)
    for step in range(97):
        masks[step, order[:step]] = False
    kept = list(range(96, -1, -1))
    paths = [PruningPath(f"order {i}", kept, np.linspace(30, 0, 97), masks.reshape(97, 12, 8)) for i in range(4)]
    groups = {"encoder": 6, "decoder": 3, "cross": 3}
    assert len(figure(*paths, kept=40, groups=groups).html()) < 48_000
