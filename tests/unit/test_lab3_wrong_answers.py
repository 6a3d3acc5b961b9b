"""Wrong answers to Lab 3 that readers of its page alone would give: each is refused, and told what it mistook."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from utils import lab3, lab3_optional, lab3_plans
from utils.exercises import NOT_YET, check


def going(table, score, keep):
    return table.sort_values(score, kind="stable").head(len(table) - keep)


def pairs(rows, first="layer", second="head"):
    return [(int(a), int(b)) for a, b in zip(rows[first], rows[second], strict=True)]


def in_each_layer(table, score, keep):
    share = len(table) - keep
    rows = table.sort_values(["layer", score]).groupby("layer").head(share * 2 // len(table) or share)
    return pairs(rows.sort_values(score))


def rounds_of(rank, total, rounds, *, step=None, returned=lambda order: order, told=lambda order: order):
    order = []
    for _ in range(rounds):
        order += rank(told(order))[: step or total // rounds]
    return returned(order)


def nested(rank, total, rounds):
    order = []
    for _ in range(rounds):
        order.append(rank(order)[: total // rounds])
    return order


def in_front(rank, total, rounds):
    order = []
    for _ in range(rounds):
        order = rank(order)[: total // rounds] + order
    return order


def all_but_the_last(rank, total, rounds):
    order = []
    for _ in range(rounds - 1):
        order += rank(order)[: total // rounds]
    return order + [head for head in range(total) if head not in order]


def left_not_gone(rank, total, rounds):
    order, left = [], list(range(total))
    for _ in range(rounds):
        order += rank(left)[: total // rounds]
        left = [head for head in left if head not in order]
    return order


def head_by_head(rank, total, rounds):
    order = []
    while len(order) < total:
        order += rank(order)[:1]
    return order


def searched(queries, old, new, k, *, cut=False, by=None, times=1.0, fixed=None, worst=False, loose=False):
    def one(passages):
        passages = passages[: len(queries)] if cut else passages
        cosines = (-1 if worst else 1) * queries @ passages.T
        place = (cosines >= cosines.diag()[:, None]).sum(1)
        hits = place <= (fixed or k)
        return times * float(hits.sum()) / (by(queries, passages, k) if by else len(queries))

    return one(old), one(new)


def drift(queries, old, new, k):
    return float((old * new).sum(-1).mean()), 1.0


def mean_cosine(queries, old, new, k):
    return tuple(float((queries @ each.T).topk(k).values.mean()) for each in (old, new))


def picked(plans, limits, rebuild, *, value=None, atleast=False, only=None, worst=False, name=lambda row: row["plan"]):
    for key, limit in list(limits.items())[:only]:
        plans = plans[plans[key] >= limit] if atleast else plans[plans[key] <= limit]
    if plans.empty:
        return "none"
    found = value(plans) if value else plans["rebuilt" if rebuild else "old index"]
    plans = plans.assign(found=found).sort_values(["found", "kept"], ascending=[worst, True])
    return name(plans.iloc[0])


def interval_of(before, after, *, n=1, level=0.95, size=None, replace=True, each=lambda p: (p == 1).double()):
    generator = torch.Generator().manual_seed(0)
    change = each(after) - each(before)
    total = len(change)
    draw = torch.rand if replace else None
    if replace:
        chosen = (draw(1000, size or total // n, generator=generator) * total).long()
    else:
        chosen = torch.stack([torch.randperm(total, generator=generator) for _ in range(1000)])
    return np.quantile(change[chosen].mean(1).numpy(), [(1 - level) / 2, (1 + level) / 2])


def of_single_queries(before, after):
    change = (after == 1).double() - (before == 1).double()
    return np.quantile(change.numpy(), [0.025, 0.975])


def operations(kept, tokens, *, square=1, pooler=1, blocks=1, layers=1, width=384):
    n, d, dh = tokens, 384, 32
    heads = kept * layers * (8 * n * width * dh + square * 4 * n**2 * dh)
    return heads + blocks * 6 * 16 * n * d**2 + pooler * 2 * d**2


def left(kept, tokens, **how):
    return operations(kept, tokens, **how) / operations(72, tokens, **how)


WRONG = {
    lab3.takes_the_least_important: [
        (lambda t, s, k: pairs(going(t, s, k), "head", "layer"), "(head, layer)"),
        (lambda t, s, k: pairs(t.sort_values(s))[:-k], "keep=0"),
        (lambda t, s, k: pairs(t.assign(size=t[s].clip(lower=0)).pipe(going, "size", k)), "most negative"),
        (lambda t, s, k: pairs(t.assign(size=t[s].abs()).pipe(going, "size", k)), "sign counts"),
        (lambda t, s, k: pairs(going(t, "absolute", k)), "column that score names"),
        (lambda t, s, k: [divmod(i, 2) for i in going(t, s, k).index], "row"),
        (lambda t, s, k: list(going(t, s, k).itertuples()), "two numbers"),
        (lambda t, s, k: going(t, s, k)[["layer", "head"]].to_numpy(), "list of pairs"),
        (lambda t, s, k: pairs(t.sort_values(s).tail(k)), "they stay"),
        (lambda t, s, k: pairs(t.sort_values(s).head(k)), "you returned two"),
        (lambda t, s, k: pairs(going(t, s, k).sort_index()), "another order"),
        (in_each_layer, "over all layers"),
    ],
    lab3.counts_what_leaves: [
        (lambda n, d, k: n * (4 * d * k + 3 * d), "d_h numbers"),
        (lambda n, d, k: n * (4 * d * k + 3), "d_h numbers"),
        (lambda n, d, k: 4 * d * k + 3 * k, "each head"),
        (lambda n, d, k: n * (4 * 384 * 32 + 3 * 32), "width and head_width"),
        (lambda n, d, k: n * (3 * (d * k + k) + k * k), "columns of W_O"),
        (lambda n, d, k: n * (4 * d * k + 3 * k + d), "b_O stays"),
        (lambda n, d, k: n * (4 * d * k), "biases"),
        (lambda n, d, k: n * (3 * d * k + 4 * k), "columns of W_O"),
        (lambda n, d, k: n * (d * k + k), "four matrices"),
        (lambda n, d, k: n * (4 * d * k + 3 * k) / 12, "one head"),
    ],
    lab3.ranks_again: [
        (nested, "flat list"),
        (in_front, "the reverse"),
        (lambda *a: rounds_of(*a, returned=lambda order: order[::-1]), "the reverse"),
        (lambda *a: rounds_of(*a, returned=sorted), "sorted"),
        (lambda rank, total, rounds: rounds_of(rank, total, rounds, step=rounds), "total // rounds"),
        (lambda rank, total, rounds: rank([]), "one-shot"),
        (lambda *a: rounds_of(*a, told=lambda order: []), "what is gone"),
        (lambda rank, total, rounds: rounds_of(rank, total, rounds, told=lambda o: o[-(total // rounds) :]), "last"),
        (all_but_the_last, "once in each round"),
        (left_not_gone, "begin with none"),
        (head_by_head, "once in each round"),
        (lambda rank, total, rounds: rounds_of(rank, total, rounds)[: total // 2], "not 12"),
    ],
    lab3.tells_old_from_rebuilt: [
        (lambda *a: searched(*a, cut=True), "all passages"),
        (lambda *a: searched(*a, by=lambda q, p, k: len(p)), "number of queries"),
        (lambda *a: searched(*a, by=lambda q, p, k: k * len(q)), "by k"),
        (lambda *a: searched(*a, fixed=1), "k=3"),
        (lambda *a: searched(*a, times=100), "at most 1"),
        (lambda *a: searched(*a, worst=True), "largest cosine"),
        (mean_cosine, "a count of queries"),
        (drift, "a count of queries"),
        (lambda *a: searched(*a)[::-1], "swapped"),
        (lambda *a: searched(*a)[0], "two numbers"),
    ],
    lab3_plans.chooses_under_constraints: [
        (lambda *a: picked(*a, value=lambda p: p[["rebuilt", "old index"]].max(axis=1)), "judged by"),
        (lambda *a: picked(*a, value=lambda p: p["rebuilt"]), "judged by"),
        (lambda *a: picked(*a, value=lambda p: p["rebuilt"] + p["old index"]), "fits, too"),
        (lambda *a: picked(*a, value=lambda p: -p["kept"]), "fits, too"),
        (lambda *a: picked(*a, atleast=True), "breaks a limit"),
        (lambda *a: picked(*a, only=1), "All limits"),
        (lambda *a: picked(*a, worst=True), "fits, too"),
        (lambda *a: picked(*a, name=lambda row: row.name), "the name of a plan"),
        (lambda p, limits, r: picked(p, limits, r) if len(limits) else "none", "no limit"),
        (lambda *a: picked(*a).replace("none", "None"), "there is no plan"),
        (lambda *a: picked(*a).replace("none", "A"), "no plan fits"),
    ],
    lab3_optional.compares_the_same_queries: [
        (lambda *a: interval_of(*a, n=2), "as many"),
        (lambda *a: interval_of(*a, n=10), "as many"),
        (lambda *a: interval_of(*a, level=0.90), "2.5 %"),
        (lambda *a: interval_of(*a, level=0.68), "2.5 %"),
        (lambda *a: interval_of(*a, size=1000 * 8), "as many"),
        (lambda *a: interval_of(*a, replace=False), "with replacement"),
        (of_single_queries, "mean of each draw"),
        (lambda *a: interval_of(*a, each=lambda p: p.double()), "places"),
        (lambda *a: interval_of(*a, each=lambda p: 1 / p), "reciprocal"),
        (lambda b, a: interval_of(a, b), "after minus before"),
        (lambda b, a: 100 * interval_of(b, a), "from −1 to 1"),
    ],
    lab3_optional.predicts_the_speed: [
        (lambda *a: left(*a, pooler=0), "pooler"),
        (lambda *a: left(*a, square=0), "n²"),
        (lambda *a: left(*a, layers=6), "of 72 heads"),
        (lambda *a: left(*a, blocks=1 / 6), "6 layers"),
        (lambda *a: left(*a, blocks=0, pooler=0), "feed-forward"),
        (lambda kept, n: 1 / left(kept, n), "the other way"),
        (lambda kept, n: 1 - left(kept, n), "expected 1"),
        (lambda kept, n: left(kept, 64), "longer texts"),
        (lambda kept, n: operations(kept, n), "share"),
    ],
}
CASES = [(test, attempt, said) for test, answers in WRONG.items() for attempt, said in answers]
NAMES = [f"{test.__name__}-{place}" for test, answers in WRONG.items() for place in range(len(answers))]


@pytest.mark.parametrize(("test", "attempt", "said"), CASES, ids=NAMES)
def test_a_wrong_answer_is_refused_by_the_name_of_its_mistake(test, attempt, said):
    result = check("L3", attempt, test)
    assert result.status == NOT_YET
    assert said in result.message
