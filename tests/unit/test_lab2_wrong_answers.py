"""Wrong answers to Lab 2 that readers of its page alone would give: each is refused, and told what it mistook."""

from __future__ import annotations

import pytest
import torch

from utils import lab2, lab2_later
from utils.exercises import NOT_YET, check
from utils.head_audit import spearman


def own(cosines):
    return cosines.diagonal()[:, None]


def replaced(z, head, mode, pool, *, written=None, mean=None, drawn=None):
    z = z.clone()
    place = head if written is None else written
    if mode == "zero":
        z[:, :, place] = 0
    elif mode == "mean":
        z[:, :, place] = mean(z, head, pool) if mean else pool[:, head].mean(0)
    else:
        z[:, :, place] = drawn(z, head, pool) if drawn else pool[torch.randint(len(pool), z.shape[:2]), head]
    return z


def rows_of(pool, size, head, shape):
    return pool[torch.randint(size, shape), head]


def honest(change, k, *, pick=None, even=None, odd=None):
    means, rest = change[:, 0::2].mean(1), change[:, 1::2].mean(1)
    chosen = (pick(means) if pick else means.argsort())[:k]
    return (
        chosen,
        even(means, chosen) if even else means[chosen].mean(),
        odd(rest, chosen) if odd else rest[chosen].mean(),
    )


def absolute(gradients):
    return gradients.abs().mean(0)


def interval(score, change, draws, *, draw=None, ends=None, first=None):
    n, whole = change.shape[1], spearman(score, change.mean(1))
    draw = draw or (lambda: torch.randint(n, (n,)))
    found = torch.tensor([spearman(score, change[:, draw()].mean(1)) for _ in range(draws)])
    low, high = ends(whole, found) if ends else (found.quantile(0.025), found.quantile(0.975))
    return first(found) if first else whole, low, high


def each_text(score, change, draws):
    found = torch.tensor([spearman(score, each) for each in change.T])
    return spearman(score, change.mean(1)), found.quantile(0.025), found.quantile(0.975)


def surplus(single, groups, together, how):
    parts = [[single[head] for head in group] for group in groups]
    return torch.tensor([how(cost, part) for cost, part in zip(together, parts, strict=True)])


def tail(first, second, draws, *, hit=None, share=None, shuffle=None, rho=spearman):
    real, hits = rho(first, second), 0
    for _ in range(draws):
        each = rho(first, shuffle(second) if shuffle else second[torch.randperm(len(second))])
        hits += hit(each, real) if hit else abs(each) >= abs(real)
    return share(hits, draws) if share else (hits + 1) / (draws + 1)


def pearson(first, second):
    return float(torch.corrcoef(torch.stack([first, second]))[0, 1])


def shuffled_once(first, second, draws):
    order = torch.randperm(len(second))
    return tail(first, second, draws, shuffle=lambda each: each[order])


WRONG = {
    lab2.counts_what_is_nearer: [
        ("the diagonal of the sorted numbers", lambda c: c.argsort(1, descending=True).diagonal() + 1),
        ("make the diagonal a column", lambda c: (c >= c.diagonal()).sum(1)),
        ("has counted itself", lambda c: (c >= own(c)).sum(1) + 1),
        ("down the columns", lambda c: (c >= own(c)).sum(0)),
        ("passage at the top", lambda c: c.argmax(1) + 1),
        ("a whole number", lambda c: (c >= own(c)).float().mean(1)),
        ("a whole number", lambda c: 1 / (c >= own(c)).sum(1)),
    ],
    lab2.measures_what_is_added: [
        ("weight them first", lambda w, v, o: (v @ o).norm(dim=-1)),
        ("squared length", lambda w, v, o: (w @ v @ o).square().sum(-1)),
        ("sum of the numbers", lambda w, v, o: (w @ v @ o).abs().sum(-1)),
        ("sum of the numbers", lambda w, v, o: (w @ v @ o).sum(-1)),
        ("root of the mean square", lambda w, v, o: (w @ v @ o).square().mean(-1).sqrt()),
        ("the weights are turned", lambda w, v, o: (w.T @ v @ o).norm(dim=-1)),
        ("along the queries", lambda w, v, o: (w @ v @ o).norm(dim=0)),
        ("one length a query", lambda w, v, o: w @ v @ o),
        ("length of a row of weights", lambda w, v, o: w.norm(dim=-1)),
    ],
    lab2.silences_one_head: [
        ("use head", lambda *a: replaced(*a, written=1)),
        ("same row: draw one for each token", lambda *a: replaced(*a, drawn=lambda z, h, p: rows_of(p, 60, h, (2, 1)))),
        ("IndexError", lambda *a: replaced(*a, drawn=lambda z, h, p: rows_of(p, z.shape[1], h, z.shape[:2]))),
        ("never drawn", lambda *a: replaced(*a, drawn=lambda z, h, p: rows_of(p, min(60, len(p)), h, z.shape[:2]))),
        ("as it is", lambda *a: replaced(*a, drawn=lambda z, h, p: rows_of(p, len(p), 0, z.shape[:2]))),
        ("as it is", lambda *a: replaced(*a, drawn=lambda z, h, p: z[:, torch.randperm(z.shape[1]), h])),
        ("not of each text", lambda *a: replaced(*a, mean=lambda z, h, p: z[:, :, h].mean(1, keepdim=True))),
        ("one for each output", lambda *a: replaced(*a, mean=lambda z, h, p: p[:, h].mean())),
    ],
    lab2.chooses_on_one_half: [
        ("no order by mean change", lambda c, k: honest(c, k, pick=lambda m: m.abs().argsort())),
        ("no order by mean change", lambda c, k: honest(c, k, pick=lambda m: m.argsort().argsort())),
        ("these are changes", lambda c, k: (c[:, 0::2].mean(1).sort().values[:k], *honest(c, k)[1:])),
        ("each mean is one number", lambda c, k: honest(c, k, odd=lambda m, chosen: m[chosen])),
        ("a sum over the chosen heads", lambda c, k: honest(c, k, even=lambda m, chosen: m[chosen].sum())),
        ("are swapped", lambda c, k: [honest(c, k)[each] for each in (0, 2, 1)]),
        ("you chose anew", lambda c, k: honest(c, k, odd=lambda m, chosen: m.sort().values[: len(chosen)].mean())),
        ("over all heads", lambda c, k: honest(c, k, odd=lambda m, chosen: m.mean())),
        ("a gain is negative", lambda c, k: (lambda heads, a, b: (heads, -a, -b))(*honest(c, k))),
        ("for 7 of 40 the means", lambda c, k: honest(c, k, odd=lambda m, chosen: m[chosen[:2]].mean())),
    ],
    lab2.keeps_or_drops_the_sign: [
        ("not only its sign", lambda g: (absolute(g), -g.mean(0).sign())),
        ("not only its sign", lambda g: (absolute(g), -g.sign().mean(0))),
        ("absolute score with a sign", lambda g: (absolute(g), -g.mean(0).sign() * absolute(g))),
        ("minus the absolute score", lambda g: (absolute(g), -absolute(g))),
        ("no squares", lambda g: (g.square().mean(0).sqrt(), -g.mean(0))),
        ("the largest size", lambda g: (g.abs().amax(0), -g.mean(0))),
        ("signed: that is the sum", lambda g: (absolute(g), -g.sum(0))),
    ],
    lab2_later.draws_texts_again: [
        ("0.05 and 0.95", lambda *a: interval(*a, ends=lambda _, d: (d.quantile(0.05), d.quantile(0.95)))),
        ("1.96", lambda *a: interval(*a, ends=lambda r, d: (r - 1.96 * d.std(), r + 1.96 * d.std()))),
        ("off", lambda *a: interval(*a, ends=lambda r, d: (2 * r - d.quantile(0.975), 2 * r - d.quantile(0.025)))),
        ("too wide", lambda *a: interval(*a, ends=lambda _, d: (d.min(), d.max()))),
        ("first comes", lambda *a: interval(*a, first=lambda d: d.mean())),
        ("as many texts as", lambda s, c, n: interval(s, c, n, draw=lambda: torch.randperm(c.shape[1])[::2])),
        ("as many texts as", lambda s, c, n: interval(s, c, n, draw=lambda: torch.randint(2 * c.shape[1], (9,)) // 2)),
        ("a draw never held both", each_text),
        ("each of the three is one number", lambda *a: (interval(*a)[0], torch.zeros(2), torch.ones(2))),
    ],
    lab2_later.compares_with_the_sum: [
        ("keep what is below 0", lambda *a: surplus(*a, lambda cost, part: max(0.0, cost - sum(part)))),
        ("keep the sign", lambda *a: surplus(*a, lambda cost, part: abs(cost - sum(part)))),
        ("not with the greatest", lambda *a: surplus(*a, lambda cost, part: cost - max(part))),
        ("do not divide", lambda *a: surplus(*a, lambda cost, part: (cost - sum(part)) / len(part))),
        ("more than two heads", lambda *a: surplus(*a, lambda cost, part: cost - part[0] - part[1])),
        ("not over all heads", lambda s, g, t: torch.tensor(t) - sum(s.values())),
        ("a share of the sum", lambda *a: surplus(*a, lambda cost, part: (cost - sum(part)) / sum(part))),
        ("lowers the sum", lambda *a: surplus(*a, lambda cost, part: cost - sum(map(abs, part)))),
    ],
    lab2_later.shuffles_one_side: [
        ("below the line", lambda *a: tail(*a, share=lambda hits, n: (hits + 1) / n)),
        ("both brackets", lambda *a: tail(*a, share=lambda hits, n: hits + 1 / n + 1)),
        ("per cent", lambda *a: tail(*a, share=lambda hits, n: 100 * (hits + 1) / (n + 1))),
        ("ties count", lambda *a: tail(*a, hit=lambda each, real: abs(each) > abs(real))),
        ("absolute values", lambda *a: tail(*a, hit=lambda each, real: each >= abs(real))),
        ("as many draws as asked", lambda first, second, _: tail(first, second, 300)),
        ("a new shuffle", shuffled_once),
        ("by spearman", lambda *a: tail(*a, rho=pearson)),
        ("with randperm", lambda *a: tail(*a, shuffle=lambda each: each[torch.randint(len(each), each.shape)])),
    ],
}


@pytest.mark.parametrize(
    ("test", "words", "attempt"),
    [(test, *answer) for test, answers in WRONG.items() for answer in answers],
)
@pytest.mark.filterwarnings("ignore:invalid value")  # a draw of equal numbers has no rank correlation
def test_is_refused_and_told_why(test, words, attempt):
    torch.manual_seed(0)
    result = check("L2", attempt, test)
    assert result.status == NOT_YET
    assert words in result.message


@pytest.mark.parametrize("seed", range(8))
def test_the_ends_of_all_draws_pass_with_any_seed_and_those_of_90_percent_do_not(seed):
    torch.manual_seed(seed)
    sorted_ends = check(
        "L2",
        lambda *a: interval(*a, ends=lambda _, d: (d.sort()[0][int(0.025 * len(d))], d.sort()[0][int(0.975 * len(d))])),
        lab2_later.draws_texts_again,
    )
    assert sorted_ends.status != NOT_YET, sorted_ends.message
    inner = check(
        "L2",
        lambda *a: interval(*a, ends=lambda _, d: (d.quantile(0.05), d.quantile(0.95))),
        lab2_later.draws_texts_again,
    )
    assert inner.status == NOT_YET
