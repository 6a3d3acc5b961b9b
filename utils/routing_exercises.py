"""Checks of the exercises on routing: each wrong answer that is likely has a message of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from utils.attention import rollout


def moves_from_key_to_query(attempt: Callable) -> None:
    """Exercise 2.1: the messages of one head, ``attempt(weights, values, w_o)`` → (n, n, width), from j to i."""
    n, size, width = 4, 3, 5
    generator = torch.Generator().manual_seed(0)
    weights, values, w_o = (torch.rand(shape, generator=generator) for shape in ((n, n), (n, size), (size, width)))
    found = torch.as_tensor(attempt(weights.clone(), values.clone(), w_o.clone()))
    shapes = {
        (n, n, size): "these are d_head wide: a message has the width of the model, so w_o is missing",
        (n, width): "summed over the senders: a message is asked for each pair, from j to i",
        (n, n): "one number a pair: a message is a row as wide as the model",
    }
    wanted = (n, n, width)
    assert found.shape == wanted, shapes.get(tuple(found.shape), f"of shape {tuple(found.shape)}, not {wanted}")
    offers = values @ w_o
    right = torch.einsum("ij,jd,dw->jiw", weights, values, w_o)
    cases = {
        "turn it round: the first axis sends, the second receives": right.transpose(0, 1),
        "the weight from j to i stands in weights[i, j], not in weights[j, i]": weights[:, :, None] * offers[:, None],
        "the sender offers, but here the receiver's own values are sent": weights.T[:, :, None] * offers,
        "every receiver gets the whole offer: the weight is missing": offers[:, None].expand(wanted),
    }
    _names(found, cases)
    assert torch.allclose(found, right, atol=1e-5), "from 1 to 2 must go weights[2, 1] times what 1 offers"


def multiplies_the_layers(attempt: Callable) -> None:
    """Exercise 2.2: rollout with a skip share for each layer, ``attempt(maps, shares)`` → (n, n)."""
    maps = torch.randn(3, 5, 5, generator=torch.Generator().manual_seed(0)).softmax(-1)
    shares = torch.tensor([0.5, 0.65, 0.85])
    found = torch.as_tensor(attempt(maps.clone(), shares.clone()))
    assert found.shape != maps.shape, "a matrix for each layer: return the one after the last layer"
    assert found.shape == (5, 5), f"of shape {tuple(found.shape)}, not (5, 5)"
    rows = float(found.sum(-1).mean())
    assert abs(rows - 1) < 1e-3, f"rows sum to {rows:.2f}, not to 1: share s stays, share 1 − s goes to the map"
    mixed, swapped = _mixed(maps, shares), _mixed(maps, 1 - shares)
    added = torch.eye(5)
    for step, share in zip(maps, shares, strict=True):
        added = torch.lerp(step, added, share)  # share · added + (1 − share) · step
    cases = {
        "the first layer stands on the left: the later one belongs there": _product(mixed.flip(0)),
        "shares the wrong way round: s is what stays, 1 − s what the map gets": _product(swapped),
        "the shares run backwards: the first share belongs to the first layer": _product(_mixed(maps, shares.flip(0))),
        "only added: each layer's matrix must multiply what came before": added,
        "the skip connection is missing: a plain product of maps": _product(maps),
        "the last layer alone: start with the identity and keep what came before": mixed[-1],
    }
    _names(found, cases)
    same = {float(share): _product(_mixed(maps, torch.full((3,), float(share)))) for share in (*shares, shares.mean())}
    for share, wrong in same.items():
        assert not _equal(found, wrong), f"every layer got the share {share:.2f}: each has its own"
    assert _equal(found, _product(mixed)), (
        "not the product of share · I + (1 − share) · map, the last layer on the left"
    )


def weighs_by_what_is_offered(attempt: Callable) -> None:
    """Exercise 2.3: share of message norms from special tokens, ``attempt(weights, offered, special)`` → a number."""
    weights = torch.tensor([[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.3, 0.1, 0.6]])
    offered = torch.tensor([[0.0, 1.0], [3.0, 4.0], [-2.0, 1.0]])
    special = torch.tensor([True, False, False])
    answer = torch.as_tensor(attempt(weights.clone(), offered.clone(), special.clone()))
    assert answer.numel() == 1, f"{answer.numel()} numbers, one a query: take their mean"
    found = float(answer)
    norms = weights * offered.norm(dim=-1)
    right = _share(norms, special)
    summed = (weights[:, special] @ offered[special]).norm(dim=-1) / (weights @ offered).norm(dim=-1)
    cases = {
        "this is the share of the weights: the norms are missing, one for each key (column)": _share(weights, special),
        "squared norms: a norm is not squared": _share(weights * offered.square().sum(-1), special),
        "also the weights are squared: a message has the norm weight · ‖offer‖": _share(norms.square(), special),
        "the messages were added before the norm: take the norm of each, then add": float(summed.mean()),
        "one share of all norms together: divide for each query, then take the mean": float(
            norms[:, special].sum() / norms.sum()
        ),
        "rows are queries: special picks columns, the keys": _share(norms.T, special),
        "this is the share of the ordinary tokens: the special ones are asked": 1 - right,
        "the weights are missing: a message is the weight times the offer": _share(
            offered.norm(dim=-1).expand(3, 3), special
        ),
    }
    for hint, wrong in cases.items():
        assert abs(found - wrong) > 1e-4, hint
    assert abs(found - right) < 1e-4, f"{right:.3f} expected, not {found:.3f}"


def _share(norms: Tensor, special: Tensor) -> float:
    return float((norms[:, special].sum(-1) / norms.sum(-1)).mean())


def _mixed(maps: Tensor, shares: Tensor) -> Tensor:
    stays = shares[:, None, None]
    return stays * torch.eye(maps.shape[-1]) + (1 - stays) * maps


def _product(steps: Tensor) -> Tensor:
    return rollout(steps[:, None], residual=0.0)[-1]


def _equal(found: Tensor, wrong: Tensor) -> bool:
    return torch.allclose(found.to(wrong), wrong, atol=1e-5)


def _names(found: Tensor, cases: Mapping[str, Tensor]) -> None:
    """Raise AssertionError with the name of the wrong answer that was given."""
    for hint, wrong in cases.items():
        assert not _equal(found, wrong), hint
