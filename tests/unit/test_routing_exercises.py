"""The checks of the exercises on routing: right answers pass, each likely wrong one is named."""

from __future__ import annotations

import pytest
import torch

from utils.exercises import NOT_ATTEMPTED, NOT_YET, PASSED, check
from utils.routing_exercises import moves_from_key_to_query, multiplies_the_layers, weighs_by_what_is_offered


def rolled(maps, shares, keep="s", left=True):
    """Rollout by a loop, with one thing done wrong."""
    eye = torch.eye(maps.shape[-1], dtype=maps.dtype)
    result = eye
    for step, share in zip(maps, shares, strict=True):
        share = 1 - share if keep == "1 - s" else share
        mixed = share * eye + (1 - share) * step
        result = mixed @ result if left else result @ mixed
    return result


def only_added(maps, shares):
    result = torch.eye(maps.shape[-1])
    for step, share in zip(maps, shares, strict=True):
        result = share * result + (1 - share) * step
    return result


def all_layers(maps, shares):
    return torch.stack([rolled(maps[: n + 1], shares[: n + 1]) for n in range(len(maps))])


def norms(weights, offered):
    return weights * offered.norm(dim=-1)


MESSAGES = {
    "": lambda p, v, o: p.T[:, :, None] * (v @ o)[:, None],
    "turn it round": lambda p, v, o: p[:, :, None] * (v @ o),
    "weights[i, j], not in weights[j, i]": lambda p, v, o: p[:, :, None] * (v @ o)[:, None],
    "the receiver's own values": lambda p, v, o: p.T[:, :, None] * (v @ o),
    "the weight is missing": lambda p, v, o: (v @ o)[:, None].repeat(1, len(p), 1),
    "w_o is missing": lambda p, v, o: p.T[:, :, None] * v[:, None],
    "summed over the senders": lambda p, v, o: p @ v @ o,
    "one number a pair": lambda p, v, o: p.T,
    "weights[2, 1] times": lambda p, v, o: 2 * p.T[:, :, None] * (v @ o)[:, None],
    "returned nothing": lambda p, v, o: print(end=""),
}
ROLLOUTS = {
    "": rolled,
    "the later one belongs there": lambda m, s: rolled(m, s, left=False),
    "the wrong way round": lambda m, s: rolled(m, s, keep="1 - s"),
    "run backwards": lambda m, s: rolled(m, s.flip(0)),
    "only added": only_added,
    "the skip connection is missing": lambda m, s: m[2] @ m[1] @ m[0],
    "the last layer alone": lambda m, s: rolled(m[-1:], s[-1:]),
    "the share 0.50": lambda m, s: rolled(m, [0.5] * 3),
    "the share 0.85": lambda m, s: rolled(m, [s[-1]] * 3),
    "the share 0.67": lambda m, s: rolled(m, [s.mean()] * 3),
    "a matrix for each layer": all_layers,
    "rows sum to 2.00": lambda m, s: torch.eye(5) + rolled(m, s),
    "the last layer on the left": lambda m, s: rolled(m[:2], s[:2]),
    "returned nothing": lambda m, s: print(end=""),
}
SHARES = {
    "": lambda p, f, s: (norms(p, f)[:, s].sum(1) / norms(p, f).sum(1)).mean(),
    "share of the weights": lambda p, f, s: p[:, s].sum(1).mean(),
    "a norm is not squared": lambda p, f, s: (
        (p * f.square().sum(-1))[:, s].sum(1) / (p * f.square().sum(-1)).sum(1)
    ).mean(),
    "also the weights are squared": lambda p, f, s: (
        norms(p, f).square()[:, s].sum(1) / norms(p, f).square().sum(1)
    ).mean(),
    "added before the norm": lambda p, f, s: ((p[:, s] @ f[s]).norm(dim=1) / (p @ f).norm(dim=1)).mean(),
    "divide for each query": lambda p, f, s: norms(p, f)[:, s].sum() / norms(p, f).sum(),
    "rows are queries": lambda p, f, s: (norms(p, f)[s].sum(0) / norms(p, f).sum(0)).mean(),
    "one for each key (column)": lambda p, f, s: (
        (p * f.norm(dim=1)[:, None])[:, s].sum(1) / (p * f.norm(dim=1)[:, None]).sum(1)
    ).mean(),
    "share of the ordinary tokens": lambda p, f, s: (norms(p, f)[:, ~s].sum(1) / norms(p, f).sum(1)).mean(),
    "the weights are missing": lambda p, f, s: float(f[s].norm(dim=1).sum() / f.norm(dim=1).sum()),
    "take their mean": lambda p, f, s: norms(p, f)[:, s].sum(1) / norms(p, f).sum(1),
    "expected, not 0.500": lambda p, f, s: 0.5,
    "returned nothing": lambda p, f, s: print(end=""),
}
ALL = [
    (test, part, attempt)
    for test, attempts in (
        (moves_from_key_to_query, MESSAGES),
        (multiplies_the_layers, ROLLOUTS),
        (weighs_by_what_is_offered, SHARES),
    )
    for part, attempt in attempts.items()
]


@pytest.mark.parametrize(("test", "part", "attempt"), ALL)
def test_right_answers_pass_and_wrong_ones_are_named(test, part, attempt):
    result = check("2", attempt, test)
    assert result.status == (NOT_YET if part else PASSED), result
    assert part in result.message


@pytest.mark.parametrize("test", [moves_from_key_to_query, multiplies_the_layers, weighs_by_what_is_offered])
def test_a_stub_is_not_attempted_yet(test):
    def stub(*arguments):
        """Say what is asked."""

    assert check("2", stub, test).status == NOT_ATTEMPTED


def test_other_ways_to_the_right_answer_pass():
    assert check("2", lambda p, v, o: torch.einsum("ij,jw->jiw", p, v @ o).numpy(), moves_from_key_to_query).status == (
        PASSED
    )
    assert check("2", lambda m, s: rolled(m.double(), s.double().tolist()), multiplies_the_layers).status == PASSED
