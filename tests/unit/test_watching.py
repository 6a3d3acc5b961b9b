"""Shapes of what torch returns to a piece of code."""

from __future__ import annotations

import torch

from utils.watching import Results


def test_each_result_is_noted_in_order_and_only_inside():
    a = torch.ones(3, 4)
    with Results() as seen:
        b = a @ a.mT
        b.diagonal().sum()
        torch.zeros(5)
        assert a.shape == (3, 4)
    a @ a.mT
    assert seen.shapes == [(4, 3), (3, 3), (3,), (), (5,)]


def test_a_loop_is_seen_by_its_length_and_two_contexts_do_not_share():
    rows = torch.ones(7, 2)
    with Results() as loop:
        torch.stack([row + 1 for row in rows])
    with Results() as whole:
        rows + 1
    assert loop.shapes == 14 * [(2,)] + [(7, 2)]
    assert whole.shapes == [(7, 2)]


def test_gradients_pass_and_errors_do_too():
    x = torch.ones(2, requires_grad=True)
    with Results() as seen:
        (x * 3).sum().backward()
        try:
            x @ torch.ones(3)
        except RuntimeError:
            seen.shapes.append("refused")
    assert x.grad.tolist() == [3.0, 3.0] and seen.shapes[-1] == "refused"
