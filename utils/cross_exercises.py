"""Checks of the exercises on encoder–decoder heads: each wrong answer that is likely has a message of its own."""

from __future__ import annotations

from collections.abc import Callable

import torch

END = "column 4 is the end of the source, no word"
MIXED = "a source piece for each row, not a row for each piece"


def points_ahead(attempt: Callable) -> None:
    """Exercise 4.1: for each row of a cross map the source piece with most weight, ``attempt(weights)`` → (rows,)."""
    rows = [[1, 2, 5, 1, 1], [3, 1, 1, 1, 4], [1, 1, 2, 5, 1], [1, 5, 1, 0, 3]]
    weights = torch.tensor(rows) / 10
    found = torch.as_tensor(attempt(weights.clone()))
    values = weights[:, :-1].amax(dim=1)
    assert found.shape != values.shape or not torch.allclose(found.float(), values), "weights: indices are asked for"
    result = found.flatten().tolist()
    hints = {
        (2, 4, 3, 1): END,
        (0, 3, 1): "token 0 is missing: row 0 is about to write it",
        (4, 3, 1): f"token 0 is missing: row 0 is about to write it; and {END}",
        (2, 0, 3): "the last row is missing: it writes the target's end",
        (2, 4, 3): f"the last row is missing: it writes the target's end; and {END}",
        (1, 3, 2, 0): "the end is the last column, not the first",
        (1, 3, 0, 2): MIXED,
        (1, 3, 0, 2, 1): MIXED,
    }
    hint = hints.get(tuple(result), "the index of one source piece for each row, in the order of the rows")
    assert found.shape == (4,) and result == [2, 0, 3, 1], f"got {result}: {hint}"
    more = torch.rand(9, 7, generator=torch.Generator().manual_seed(0))
    again = torch.as_tensor(attempt(more.clone())).tolist()
    right = [max(range(6), key=row.__getitem__) for row in more.tolist()]
    assert again == right, f"on a map of 9 rows and 7 columns: {again}, not {right}"


def shares_keys(attempt: Callable) -> None:
    """Exercise 4.2: the mean over groups of neighbouring heads, ``attempt(weight, heads, groups)``."""
    weight = torch.arange(8.0)[:, None] * torch.ones(8, 3)  # 4 heads of 2 rows
    found = torch.as_tensor(attempt(weight.clone(), 4, 2))
    shape = tuple(found.shape)
    assert shape != (8, 3), "the rows of a group stand in it twice: once is enough"
    assert shape != (2, 2, 3), "a group is an axis of its own: put groups and rows into one, flatten(0, 1)"
    assert shape != (2, 3), "rows within a head were averaged, too: a group keeps as many rows as a head has"
    assert shape == (4, 3), f"2 groups of 2 rows and width 3 are (4, 3), not {shape}"
    hints = {
        (2, 3, 4, 5): "heads 0 and 2 were joined: neighbours are 0 and 1",
        (2, 4, 10, 12): "a sum over the group, not the mean",
        (0.5, 2.5, 4.5, 6.5): "rows within a head were averaged, not heads",
        (0, 1, 4, 5): "the first head of each group, not the mean",
        (2, 3, 6, 7): "the last head of each group, not the mean",
    }
    column = found[:, 0].tolist()
    hint = hints.get(tuple(column), "row r of a group is the mean of the rows r of its heads")
    assert column == [1, 2, 5, 6], f"made of rows {column}: {hint}"
    generator = torch.Generator().manual_seed(0)
    heads = [torch.rand(2, 5, generator=generator) for _ in range(6)]
    right = torch.cat([sum(heads[:3]) / 3, sum(heads[3:]) / 3])
    again = torch.as_tensor(attempt(torch.cat(heads), 6, 2))
    assert again.shape == right.shape and torch.allclose(again, right, atol=1e-5), "6 heads in 2 groups: 3 in each"
