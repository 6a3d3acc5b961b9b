"""The bootstrap against a loop in numpy, and against what the theory says of a mean."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from utils.bootstrap import ratio_interval


def test_the_interval_is_that_of_a_plain_loop_over_the_same_draws():
    generator = torch.Generator().manual_seed(4)
    above, below = torch.rand(2, 30, generator=generator)
    chosen = torch.randint(30, (200, 30), generator=torch.Generator().manual_seed(7)).numpy()
    drawn = [above.double().numpy()[row].sum() / below.double().numpy()[row].sum() for row in chosen]
    whole, low, high = ratio_interval(above, below, 200, 7)
    assert whole == pytest.approx(float(above.double().sum() / below.double().sum()))
    assert (low, high) == pytest.approx(tuple(np.quantile(drawn, [0.025, 0.975])))


def test_for_many_texts_it_is_about_two_standard_errors_wide():
    values = torch.randn(2000, generator=torch.Generator().manual_seed(0))
    _, low, high = ratio_interval(values, torch.ones(2000), 1000, 0)
    assert high - low == pytest.approx(2 * 1.96 * float(values.std()) / 2000**0.5, rel=0.1)
