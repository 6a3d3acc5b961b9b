"""The collapse-explorer's data, points, fallback and refusals."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from utils.collapse_explorer import COMBINATIONS, collapse_explorer, plane
from utils.payload import unpack
from utils.spectra import rank_residual

LABELS = ["[CLS]", "</script>", "c", "d", "e", "f"]


def some_states(seed: int = 0) -> torch.Tensor:
    """(4, 6, 5): each layer a tenth of the distance of the one before."""
    drawn = torch.randn(2, 6, 5, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return torch.stack([drawn[0].mean(0) + 10.0**-layer * drawn[1] for layer in (0, 1, 2, 14)])


@pytest.fixture
def states() -> dict:
    return {parts: some_states(seed) for seed, parts in enumerate(COMBINATIONS)}


def test_it_is_deterministic_escapes_and_holds_points_and_residuals(states):
    html = collapse_explorer(states, LABELS, title="Fall", alt="Points.").html()
    assert html == collapse_explorer(states, LABELS, title="Fall", alt="Points.").html()
    assert html.count("</script>") == 2 and "below 1e-12" in html and len(html) < 40_000
    arrays = unpack(html)
    assert arrays["points"].shape == (8, 4, 6, 2) and arrays["logs"].shape == (8, 4)
    expected = rank_residual(states[COMBINATIONS[5]][:3]).log10()
    np.testing.assert_allclose(arrays["logs"][5, :3], expected, atol=1e-4)
    assert arrays["logs"][5, 3] == -12


def test_the_cloud_is_as_large_as_the_residual_and_does_not_spin():
    states = some_states()
    points = plane(states).astype(np.float64)
    radius = np.sqrt((points**2).sum(-1).mean(-1))
    np.testing.assert_allclose(radius[:3], rank_residual(states[:3]), rtol=1e-5)
    turned = [p / np.linalg.norm(p) for p in points[:3]]
    assert np.abs(turned[1] - turned[0]).max() < 1e-5  # the same shape, ten times smaller


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels": LABELS[:5]}, "6 tokens need 6 labels"),
        ({"depth": 4}, "depth must be from 0 to 3"),
        ({"parts": (True, True)}, "three booleans"),
        ({"states": {(True, True, True): some_states()}}, "is missing"),
        ({"states": dict.fromkeys(COMBINATIONS, some_states()[0])}, "of one shape are needed"),
    ],
)
def test_what_does_not_fit_is_refused(states, change, message):
    options = {"states": states, "labels": LABELS, "alt": "Points."} | change
    with pytest.raises(ValueError, match=message):
        collapse_explorer(**options)
