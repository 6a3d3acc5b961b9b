"""The checks of Lab 1: right answers pass, stubs are no error, and each mistake gets the message that names it."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import seaborn as sns
import torch

from utils import lab1
from utils.attention import rollout
from utils.exercises import NOT_ATTEMPTED, NOT_YET, PASSED, check

ONE_HOT = torch.nn.functional.one_hot


def draw(first, second, queries, keys, *, top=None, low=0, turned=False, swapped=False, alone=False, plain=False):
    figure, axes = plt.subplots(1, 2)
    top = float(max(first.max(), second.max())) if top is None else top
    for index, (ax, weights) in enumerate(zip(axes, (first, second), strict=True)):
        rows, columns = (keys, queries) if turned else (queries, keys)
        rows, columns = (columns, rows) if swapped else (rows, columns)
        limit = float(weights.max()) if alone else top
        weights = weights.T if turned else weights
        if plain:
            ax.imshow(weights, vmin=low, vmax=limit)
        else:
            chosen = axes[0] if plain is None else axes[index]
            sns.heatmap(weights, ax=chosen, vmin=low, vmax=limit, yticklabels=rows, xticklabels=columns)
    return axes


def member(words):
    return ONE_HOT(torch.tensor(words)).float()


def mean(words):
    return member(words) / member(words).sum(0)


def share(weights, offset, *, sign=1, edge=False, mass=False, count=False):
    places = torch.arange(len(weights))
    target = places + sign * offset
    inside = (target >= 0) & (target < len(weights))
    if mass:
        return float(weights.diagonal(offset).mean())
    hits = (weights.argmax(-1) == target)[inside | torch.tensor(edge)].float()
    return float(hits.sum() if count else hits.mean())


def heads(table):
    return list(table[["layer", "head"]].itertuples(index=False, name=None))


def confirm(choose, report, share=0.9, *, offsets=(-1, 1), same=True, strict=False, rows=False, again=True, first=True):
    if rows:
        both = choose.assign(**report.add_suffix("_again"))
    else:
        both = choose.merge(report, on=["layer", "head"], suffixes=("", "_again"))
    passes = (both.best_offset_share > share) if strict else (both.best_offset_share >= share)
    passes = passes if first else True
    passes &= (both.best_offset_share_again >= share) if again else True
    passes &= both.best_offset.isin(offsets) & ((both.best_offset == both.best_offset_again) | (not same))
    return heads(both[passes])


def only(weights, special, *, rows="~", divide=True, number=True):
    kept = weights[~special][:, ~special]
    reading = weights[~special] if rows == "~" else weights
    dropped = reading[:, special].sum(-1).mean()
    if divide:
        kept = kept / kept.sum(-1, keepdim=True)
    return (kept, dropped) if number else kept


def bits(weights):
    return torch.special.entr(weights).sum(-1) / np.log(2)


def order(weights, *, turned=False, residual=0.5, fused=None):
    eye = torch.eye(weights.shape[-1])
    rolled = eye
    for layer in (weights.mean(1) if fused is None else fused(weights)).flip(0) if turned else weights.mean(1):
        rolled = (residual * eye + (1 - residual) * layer) @ rolled
    return rolled


RIGHT = {
    "follows_the_row": lambda weights, queries, keys, query: keys[int(weights[queries.index(query)].argmax())],
    "two_maps_one_scale": draw,
    "merges_readers_and_read": lambda weights, words: mean(words).T @ weights @ member(words),
    "counts_the_greatest_weights": share,
    "chooses_then_confirms": confirm,
    "drops_and_says_how_much": only,
    "knows_the_ends_of_entropy": lambda weights: torch.special.entr(weights).sum(-1),
    "finds_the_changed_head": lambda a, b: divmod(int((a - b).abs().mean((-2, -1)).argmax()), a.shape[1]),
    "multiplies_from_the_left": lambda weights: rollout(weights)[-1],
}
TABLE_OF_ANOTHER_CLASS = pd.DataFrame({"layer": [0], "head": [0], "best_offset": [-1], "best_offset_share": [1.0]})
WRONG = [
    ("follows_the_row", lambda w, q, k, x: k[int(w[:, k.index(x)].argmax())], "went down the column"),
    ("follows_the_row", lambda w, q, k, x: int(w[q.index(x)].argmax()), "not its number"),
    ("follows_the_row", lambda w, q, k, x: q[int(w[q.index(x)].argmax()) % len(q)], "x reads “b” most"),
    ("follows_the_row", lambda w, q, k, x: x, "you returned 'b'"),
    ("two_maps_one_scale", lambda *a: draw(*a, alone=True), "scales differ"),
    ("two_maps_one_scale", lambda *a: draw(*a, top=1.0), "larger maximum"),
    ("two_maps_one_scale", lambda *a: draw(*a, top=float(a[0].max())), "swapped"),
    ("two_maps_one_scale", lambda *a: draw(*a, low=0.1), "starts at 0.1"),
    ("two_maps_one_scale", lambda *a: draw(*a, turned=True), "no transpose"),
    ("two_maps_one_scale", lambda *a: draw(*a, swapped=True), "rows are queries"),
    ("two_maps_one_scale", lambda *a: draw(*a, plain=True), "imshow"),
    ("two_maps_one_scale", lambda *a: draw(*a, plain=None), "its own ax="),
    ("two_maps_one_scale", lambda *a: draw(*a)[0], "return the two axes"),
    ("two_maps_one_scale", lambda *a: draw(*a)[::-1], "first map left"),
    ("merges_readers_and_read", lambda w, words: member(words).T @ w @ member(words), "take the mean"),
    ("merges_readers_and_read", lambda w, words: mean(words).T @ w @ mean(words), "Sum there"),
    ("merges_readers_and_read", lambda w, words: member(words).T @ w @ mean(words), "swap"),
    ("merges_readers_and_read", lambda w, words: w, "three pieces make two words"),
    ("merges_readers_and_read", lambda w, words: (mean(words).T @ w @ member(words)).flip(0), "expected [["),
    ("counts_the_greatest_weights", lambda w, o: share(w, o, sign=-1), "sign is turned round"),
    ("counts_the_greatest_weights", lambda w, o: share(w, o, edge=True), "do not count it"),
    ("counts_the_greatest_weights", lambda w, o: share(w, o, mass=True), "averaged the weights"),
    ("counts_the_greatest_weights", lambda w, o: share(w, o, count=True), "at most 1"),
    ("chooses_then_confirms", lambda c, r, share=0.9: confirm(c, r, share, offsets=(-1, 0, 1)), "reads itself"),
    ("chooses_then_confirms", lambda c, r, share=0.9: confirm(c, r, share, offsets=(-5, -1, 1)), "five tokens back"),
    ("chooses_then_confirms", lambda c, r, share=0.9: confirm(c, r, share, again=False), "(1, 1) has 0.93"),
    ("chooses_then_confirms", lambda c, r, share=0.9: confirm(c, r, share, same=False), "no fixed offset"),
    ("chooses_then_confirms", lambda c, r, share=0.9: confirm(c, r, share, first=False), "second half only"),
    ("chooses_then_confirms", lambda c, r, share=0.9: confirm(c, r, share, strict=True), "includes it"),
    ("chooses_then_confirms", lambda c, r, share=0.9: confirm(c, r, share, rows=True), "match rows by layer and head"),
    ("chooses_then_confirms", lambda c, r, share=0.9: confirm(c, r), "use the argument share"),
    ("chooses_then_confirms", lambda c, r, share=0.9: [], "expected (0, 0) and (1, 0), got []"),
    ("drops_and_says_how_much", lambda w, s: only(w, s, divide=False), "divide each row"),
    ("drops_and_says_how_much", lambda w, s: only(w, s, rows="all"), "ordinary rows only"),
    ("drops_and_says_how_much", lambda w, s: only(w, s, number=False), "return two things"),
    ("drops_and_says_how_much", lambda w, s: (only(w, s)[0], 0.1), "ordinary rows have"),
    ("drops_and_says_how_much", lambda w, s: (w, 0.1), "three ordinary tokens"),
    ("knows_the_ends_of_entropy", lambda w: -(w * w.log()).sum(-1), "NaN"),
    ("knows_the_ends_of_entropy", lambda w: -torch.special.entr(w).sum(-1), "sign is missing"),
    ("knows_the_ends_of_entropy", bits, "bits"),
    ("knows_the_ends_of_entropy", lambda w: torch.special.entr(w).sum(), "one number a row"),
    ("knows_the_ends_of_entropy", lambda w: torch.special.entr(w).mean(-1), "expected ln 1"),
    ("finds_the_changed_head", lambda a, b: divmod(int((a - b).abs().amax((-2, -1)).argmax()), 4), "single cell"),
    ("finds_the_changed_head", lambda a, b: divmod(int((a - b).mean((-2, -1)).abs().argmax()), 4), "(0, 3)"),
    ("finds_the_changed_head", lambda a, b: divmod(int((a - b).abs().mean((-2, -1)).argmax()), 3), "got (3, 0)"),
    ("multiplies_from_the_left", lambda w: order(w, turned=True), "turned round"),
    ("multiplies_from_the_left", lambda w: order(w, residual=0.0), "residual half is missing"),
    ("multiplies_from_the_left", lambda w: order(w, residual=0.1), "values differ"),
    ("multiplies_from_the_left", lambda w: rollout(w), "the last layer only"),
    ("multiplies_from_the_left", lambda w: rollout(w, fusion="max")[-1], "values differ"),
    ("multiplies_from_the_left", lambda w: 2 * order(w), "not 1"),
]


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_answer_passes(name):
    assert check("L1", RIGHT[name], getattr(lab1, name)).status == PASSED


@pytest.mark.parametrize("name", RIGHT)
def test_a_stub_is_not_attempted(name):
    def raises(*_, **__):
        raise NotImplementedError

    for stub in (raises, lambda *_, **__: None):
        result = check("L1", stub, getattr(lab1, name))
        assert (result.status, result.message) == (NOT_ATTEMPTED, "")


@pytest.mark.parametrize(("name", "attempt", "words"), WRONG)
def test_a_mistake_is_named(name, attempt, words):
    result = check("L1", attempt, getattr(lab1, name))
    assert result.status == NOT_YET
    assert words in result.message


@pytest.mark.parametrize("name", RIGHT)
def test_an_answer_of_another_kind_is_reported_and_not_raised(name):
    for value in ("text", 3.0, [[1, 2], [3]], torch.zeros(2, 2), TABLE_OF_ANOTHER_CLASS):
        result = check("L1", lambda *_, value=value, **__: value, getattr(lab1, name))
        assert result.status == NOT_YET and result.message


def test_the_check_of_the_drawing_leaves_no_figure_open_and_closes_no_other():
    kept = plt.figure()
    check("L1", draw, lab1.two_maps_one_scale)
    check("L1", lambda *a: draw(*a, alone=True), lab1.two_maps_one_scale)
    assert plt.get_fignums() == [kept.number]
    plt.close(kept)


def as_arrays(found):
    """Any tensors in an answer as numpy arrays of double precision."""
    if isinstance(found, torch.Tensor):
        return found.double().numpy()
    return tuple(as_arrays(each) for each in found) if isinstance(found, tuple) else found


@pytest.mark.parametrize("name", RIGHT)
@pytest.mark.parametrize("turned_into", [as_arrays, lambda found: list(found) if isinstance(found, tuple) else found])
def test_a_right_answer_passes_as_array_list_or_double(name, turned_into):
    attempt = RIGHT[name]
    result = check("x", lambda *a, **k: turned_into(attempt(*a, **k)), getattr(lab1, name))
    assert result.status == PASSED, result.message


@pytest.mark.parametrize("shared", [{"sharey": True}, {"sharex": True}, {"sharex": True, "sharey": True}])
def test_axes_may_share_their_labels(shared):
    def attempt(first, second, queries, keys):
        _, axes = plt.subplots(1, 2, **shared)
        for ax, weights in zip(axes, (first, second), strict=True):
            top = float(max(first.max(), second.max()))
            sns.heatmap(weights, ax=ax, vmin=0, vmax=top, xticklabels=keys, yticklabels=queries)
        return axes

    result = check("x", attempt, lab1.two_maps_one_scale)
    assert result.status == PASSED, result.message


def remembered(right):
    """A function that answers the first question rightly, and every other one in the same way."""
    first = []

    def attempt(*args, **kwargs):
        first.append(first[0] if first else right(*args, **kwargs))
        return first[0]

    return attempt


CHEATS = [
    ("follows_the_row", lambda w, q, k, x: {"b": "c", "x": "b"}.get(x, "a")),
    ("chooses_then_confirms", lambda c, r, share=0.9: [(0, 0), (1, 0)] if share < 0.95 else []),
    ("knows_the_ends_of_entropy", lambda w: torch.tensor([1.0, 2.0, 4.0]).log()),
    ("knows_the_ends_of_entropy", lambda w: (w > 0).sum(-1).float().log()),
    ("finds_the_changed_head", lambda a, b: (2, 1)),
]


@pytest.mark.parametrize(("name", "attempt"), CHEATS)
def test_answers_learnt_by_heart_are_refused(name, attempt):
    assert check("x", attempt, getattr(lab1, name)).status == NOT_YET


# Checks that compare one answer with the right one for random weights, or with two drawings.
ASKED_ONCE = {"multiplies_from_the_left", "drops_and_says_how_much", "two_maps_one_scale"}


@pytest.mark.parametrize("name", sorted(set(RIGHT) - ASKED_ONCE))
def test_one_answer_for_every_question_is_refused(name):
    test = getattr(lab1, name)
    assert check("x", remembered(RIGHT[name]), test).status == NOT_YET
