"""The checks of Lab 3: right answers pass, stubs are no error, and each mistake gets the message that names it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from utils import lab3, lab3_optional, lab3_plans
from utils.exercises import NOT_ATTEMPTED, NOT_YET, PASSED, check
from utils.pruned_retrieval import interval
from utils.pruning_costs import predicted_flops
from utils.search_index import ranks, recall


def order(table, score, keep, *, ascending=True, size=False, other=False, count=None, flip=False):
    values = table["absolute" if other else score]
    rows = table.loc[(values.abs() if size else values).sort_values(ascending=ascending, kind="stable").index]
    rows = rows[: len(rows) - keep if count is None else count(keep)]
    found = list(zip(rows["layer"], rows["head"], strict=True))
    return found[::-1] if flip else found


def iterate(rank, total, rounds, *, again=True, all_gone=True, end=False, extra=0, plus=0):
    found, last, first = [], [], None
    for step in range(1, rounds + 1 + extra):
        left = rank(found if all_gone else last) if again or first is None else [h for h in first if h not in found]
        first = first or left
        last = (left[::-1] if end else left)[: round(step / rounds * total) - len(found) + plus]
        found = found + last
    return found


def both(queries, old, new, k, *, swap=False, same=False, off=0, turned=False, count=False):
    def one(passages):
        if turned:
            own = (passages[: len(queries)] @ queries.mT).topk(k).indices
            return float((own == torch.arange(len(queries))[:, None]).any(1).float().mean())
        hits = ranks(queries, passages) <= k + off
        return float(hits.sum() if count else hits.float().mean())

    found = one(new if same else old), one(new)
    return found[::-1] if swap else found


def choose(
    plans, limits, rebuild, *, strict=False, turned=False, fewest=False, any_limit=False, tie=True, always=False
):
    column = "rebuilt" if rebuild is not turned else "old index"
    fits = [plans[name] < limit if strict else plans[name] <= limit for name, limit in limits.items()]
    fits = np.all(fits, axis=0) if fits and not any_limit else np.any(fits, axis=0) if fits else plans["kept"] > 0
    plans = plans if always else plans[fits]
    if plans.empty:
        return "none"
    if fewest:
        return plans.sort_values("kept")["plan"].iloc[0]
    return plans.sort_values([column, "kept"], ascending=[False, tie])["plan"].iloc[0]


def boot(before, after, *, apart=False, sign=1, level=0.95, draws=1000, few=1, k=1):
    g = torch.Generator().manual_seed(5)
    n = len(before)
    a, b = (torch.randint(n, (draws, n // few), generator=g) for _ in range(2))
    change = (after <= k).double()[b if apart else a].mean(1) - (before <= k).double()[a].mean(1)
    return np.quantile(sign * change.numpy(), [(1 - level) / 2, (1 + level) / 2])


def share(kept, tokens):
    return predicted_flops(kept, 1, tokens) / predicted_flops(72, 1, tokens)


RIGHT = {
    "takes_the_least_important": order,
    "counts_what_leaves": lambda removed, width, head: removed * (4 * width * head + 3 * head),
    "ranks_again": iterate,
    "tells_old_from_rebuilt": both,
    "chooses_under_constraints": choose,
    "compares_the_same_queries": boot,
    "predicts_the_speed": share,
}
WRONG = [
    ("takes_the_least_important", lambda *a: order(*a, ascending=False), "they stay"),
    ("takes_the_least_important", lambda *a: order(*a, count=lambda keep: keep), "you returned two"),
    ("takes_the_least_important", lambda *a: order(*a, flip=True), "reverse order"),
    ("takes_the_least_important", lambda *a: order(*a, size=True), "Its sign counts"),
    ("takes_the_least_important", lambda *a: order(*a, other=True), "the column that score names"),
    ("takes_the_least_important", lambda t, s, k: t.nsmallest(len(t) - k, s), "not a table"),
    ("takes_the_least_important", lambda t, s, k: list(t.nsmallest(len(t) - k, s).index), "pairs (layer, head)"),
    ("takes_the_least_important", lambda t, s, k: sorted(order(t, s, k)), "in another order"),
    ("counts_what_leaves", lambda n, d, k: n * 4 * d * k, "biases of W_Q"),
    ("counts_what_leaves", lambda n, d, k: n * (3 * d * k + 3 * k), "columns of W_O"),
    ("counts_what_leaves", lambda n, d, k: n * (4 * d * k + 4 * k), "b_O has the width"),
    ("counts_what_leaves", lambda n, d, k: n * (4 * d * k + 3 * k) + d, "b_O stays"),
    ("counts_what_leaves", lambda n, d, k: n * (4 * d * d + 3 * d), "a slice"),
    ("counts_what_leaves", lambda n, d, k: 4 * d * k + 3 * k, "3 heads"),
    ("counts_what_leaves", lambda n, d, k: 0, "only a mask"),
    ("ranks_again", lambda *a: iterate(*a, again=False), "one-shot"),
    ("ranks_again", lambda rank, total, rounds: rank([])[:total], "one-shot"),
    ("ranks_again", lambda *a: iterate(*a, all_gone=False), "not the last round's"),
    ("ranks_again", lambda *a: iterate(*a, end=True), "front"),
    ("ranks_again", lambda *a: iterate(*a, extra=1), "once in each round"),
    ("ranks_again", lambda *a: iterate(*a, plus=1), "equal rounds"),
    ("tells_old_from_rebuilt", lambda *a: both(*a, swap=True), "swapped"),
    ("tells_old_from_rebuilt", lambda *a: both(*a, same=True), "must search the old passages"),
    ("tells_old_from_rebuilt", lambda *a: both(*a, off=-1), "itself is in"),
    ("tells_old_from_rebuilt", lambda *a: both(*a, turned=True), "for each query"),
    ("tells_old_from_rebuilt", lambda *a: both(*a, count=True), "divide by the queries"),
    ("tells_old_from_rebuilt", lambda *a: both(*a)[0], "two numbers"),
    ("chooses_under_constraints", lambda *a: choose(*a, strict=True), "equal to its limit"),
    ("chooses_under_constraints", lambda *a: choose(*a, turned=True), "judged by"),
    ("chooses_under_constraints", lambda *a: choose(*a, fewest=True), "fits, too"),
    ("chooses_under_constraints", lambda *a: choose(*a, any_limit=True), "breaks a limit"),
    ("chooses_under_constraints", lambda *a: choose(*a, tie=False), "fewer heads"),
    ("chooses_under_constraints", lambda *a: choose(*a, always=True), "breaks a limit"),
    ("chooses_under_constraints", lambda p, limits, r: p.iloc[0], "the name of a plan"),
    ("compares_the_same_queries", lambda *a: boot(*a, apart=True), "the same ones"),
    ("compares_the_same_queries", lambda *a: boot(*a, sign=-1), "after minus before"),
    ("compares_the_same_queries", lambda *a: boot(*a)[::-1], "swap them"),
    ("compares_the_same_queries", lambda *a: boot(*a, few=10), "or too few"),
    ("predicts_the_speed", lambda kept, tokens: kept / 72, "feed-forward"),
    ("predicts_the_speed", lambda kept, tokens: share(kept, 64), "longer texts save more"),
    ("predicts_the_speed", lambda kept, tokens: 1 - share(kept, tokens), "expected 1"),
]


def _test(name):
    return next(getattr(each, name) for each in (lab3, lab3_optional, lab3_plans) if hasattr(each, name))


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_answer_passes(name):
    result = check(name, RIGHT[name], _test(name))
    assert result.status == PASSED, result.message


@pytest.mark.parametrize("name", RIGHT)
def test_a_stub_is_not_attempted(name):
    for stub in (None, lambda *a, **k: None):
        result = check(name, stub, _test(name))
        assert (result.status, result.message) == (NOT_ATTEMPTED, "")


@pytest.mark.parametrize(("name", "attempt", "said"), WRONG, ids=[f"{n}-{i}" for i, (n, *_) in enumerate(WRONG)])
def test_a_wrong_answer_gets_the_message_that_names_its_mistake(name, attempt, said):
    result = check(name, attempt, _test(name))
    assert result.status == NOT_YET
    assert said in result.message


def test_every_exercise_has_at_least_three_wrong_answers():
    assert all(sum(name == each for each, *_ in WRONG) >= 3 for name in RIGHT)


def test_reference_answers_agree_with_the_functions_of_the_book():
    before, after = torch.tensor([1, 1, 2, 1, 5] * 20), torch.tensor([1, 2, 1, 3, 5] * 20)
    low, high = interval(before, after)
    assert low < recall(after) - recall(before) < high
