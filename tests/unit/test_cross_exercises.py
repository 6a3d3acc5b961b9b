"""The checks of the exercises on encoder–decoder heads: right answers pass, each likely wrong one is named."""

from __future__ import annotations

import pytest

from utils.cross_exercises import points_ahead, shares_keys

AHEAD = {
    "column 4 is the end": lambda w: w.argmax(1),
    "token 0 is missing: row 0 is about to write it$": lambda w: w[1:, :-1].argmax(1),
    "token 0 is missing.*column 4": lambda w: w[1:].argmax(1),
    "the last row is missing: it writes the target's end$": lambda w: w[:-1, :-1].argmax(1),
    "the last row is missing.*column 4": lambda w: w[:-1].argmax(1),
    "the end is the last column": lambda w: w[:, 1:].argmax(1),
    "a source piece for each row": lambda w: w[:, :-1].argmax(0),
    "not a row for each piece": lambda w: w.argmax(0),
    "indices are asked for": lambda w: w[:, :-1].max(1).values,
    "the index of one source piece": lambda w: w[:, :-1],
    "on a map of 9 rows and 7 columns": lambda w: w[:, :4].argmax(1),
}


def blocks(weight, heads, groups):
    return weight.unflatten(0, (heads, -1)).unflatten(0, (groups, -1))


SHARES = {
    "twice": lambda w, h, g: blocks(w, h, g).mean(1).repeat_interleave(h // g, 0).flatten(0, 1),
    "an axis of its own": lambda w, h, g: blocks(w, h, g).mean(1),
    "rows within a head were averaged, too": lambda w, h, g: blocks(w, h, g).mean((1, 2)),
    "heads 0 and 2 were joined": lambda w, h, g: (
        w.unflatten(0, (h, -1)).unflatten(0, (-1, g)).mean(0).flatten(0, 1) if h == 4 else None
    ),
    "a sum over the group": lambda w, h, g: blocks(w, h, g).sum(1).flatten(0, 1),
    "rows within a head were averaged, not heads": lambda w, h, g: w.unflatten(0, (h, -1)).mean(1),
    "the first head": lambda w, h, g: blocks(w, h, g)[:, 0].flatten(0, 1),
    "the last head": lambda w, h, g: blocks(w, h, g)[:, -1].flatten(0, 1),
    "not \\(4,\\)": lambda w, h, g: blocks(w, h, g).mean(1).flatten(0, 1)[:, 0],
    "3 in each": lambda w, h, g: w.unflatten(0, (-1, 2, 2)).mean(1).flatten(0, 1),
}


def test_right_answers_pass():
    points_ahead(lambda w: w[:, :-1].argmax(1))
    points_ahead(lambda w: [max(range(len(row) - 1), key=row.__getitem__) for row in w.tolist()])
    shares_keys(lambda w, h, g: blocks(w, h, g).mean(1).flatten(0, 1))
    shares_keys(lambda w, h, g: w.reshape(g, h // g, -1, w.shape[1]).mean(1).reshape(-1, w.shape[1]))


@pytest.mark.parametrize("message", AHEAD)
def test_a_wrong_source_is_named(message):
    with pytest.raises(AssertionError, match=message):
        points_ahead(AHEAD[message])


@pytest.mark.parametrize("message", SHARES)
def test_a_wrong_group_is_named(message):
    with pytest.raises(AssertionError, match=message):
        shares_keys(SHARES[message])
