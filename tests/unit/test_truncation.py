"""Measures of a truncated map, and the rank-explorer as text."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from utils.payload import unpack
from utils.rank_explorer import LARGEST, rank_explorer, truncation


def pair(n: int = 12, width: int = 4, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    weights = (2 * torch.randn(n, n, generator=generator)).softmax(-1)
    return weights, torch.randn(n, width, generator=generator)


def figure(**options):
    heads = {"<b>noise": pair(), "shift": (torch.eye(12).roll(1, 0), pair(seed=1)[1])}
    return rank_explorer(heads, **({"head": "shift", "rank": 3, "title": "W_{Q} & rank", "alt": "Two maps"} | options))


def test_truncation_agrees_with_numpy():
    weights, values = pair()
    whole = weights.double().numpy()
    left, sigma, right = np.linalg.svd(whole)
    kept = (left[:, :5] * sigma[:5]) @ right[:5]
    found = truncation(weights, values, 5)
    assert found.one == pytest.approx(sigma[:5].sum() / sigma.sum())
    assert found.two == pytest.approx((sigma[:5] ** 2).sum() / (sigma**2).sum())
    assert found.error == pytest.approx(np.linalg.norm(kept - whole) / np.linalg.norm(whole))
    now, before = kept @ values.double().numpy(), whole @ values.double().numpy()
    cosine = (now * before).sum(1) / np.linalg.norm(now, axis=1) / np.linalg.norm(before, axis=1)
    assert found.cosine == pytest.approx(cosine.mean())


def test_at_full_rank_nothing_is_lost_and_a_shift_loses_evenly():
    assert truncation(*pair(), 12) == pytest.approx((1, 1, 0, 1), abs=1e-6)
    shift = truncation(torch.eye(12).roll(1, 0), pair()[1], 3)
    assert (shift.one, shift.two, shift.error) == pytest.approx((0.25, 0.25, 0.75**0.5))


def test_a_figure_holds_its_maps_is_escaped_and_repeats_itself():
    html = figure().html()
    assert html == figure().html()
    assert "<b>noise" not in html and "25 %" in html
    arrays = unpack(html)
    np.testing.assert_allclose(arrays["maps"][0], pair()[0], atol=1e-7)
    np.testing.assert_allclose(arrays["values"][0], pair()[1], atol=1e-7)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"head": "none"}, "no map is called"), ({"rank": 0}, "from 1 to 12"), ({"rank": 13}, "from 1 to 12")],
)
def test_what_does_not_exist_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        figure(**options)


def test_maps_that_do_not_fit_are_refused():
    weights, values = pair()
    for heads in ({"a": (weights, values[:5])}, {"a": (weights[:5], values)}, {"a": (weights, values), "b": pair(8)}):
        with pytest.raises(ValueError, match="of one size"):
            rank_explorer(heads, head="a", rank=1, alt="maps")
    with pytest.raises(ValueError, match="too large"):
        rank_explorer({"a": pair(LARGEST + 1)}, head="a", rank=1, alt="maps")
