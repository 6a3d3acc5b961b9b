"""Probes read what is there, on texts they have not seen, and nothing that is not."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge

from utils.probes import (
    IGNORED,
    common_targets,
    equal_length,
    majority,
    probe_accuracy,
    random_projection,
    shifted,
    split_by_text,
)


def drawn(texts: int = 40, tokens: int = 10, classes: int = 6, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Targets and features (classes + 2 wide) that hold them, with noise."""
    generator = torch.Generator().manual_seed(seed)
    targets = torch.randint(classes, (texts, tokens), generator=generator)
    features = torch.nn.functional.one_hot(targets, classes + 2).float()
    return features + 0.01 * torch.randn(features.shape, generator=generator), targets


def test_a_probe_reads_what_the_features_hold():
    features, targets = drawn()
    assert probe_accuracy(features, targets, split_by_text(40)) == 1.0


def test_a_probe_of_noise_is_no_better_than_the_majority():
    _, targets = drawn(texts=200)
    noise = torch.randn(200, 10, 8, generator=torch.Generator().manual_seed(1))
    train = split_by_text(200)
    assert abs(probe_accuracy(noise, targets, train) - 1 / 6) < 0.08
    assert abs(majority(targets, train) - 1 / 6) < 0.06


def test_a_probe_equals_ridge_regression_of_scikit_learn():
    features, targets = drawn(classes=4)
    features = features + 0.8 * torch.randn(features.shape, generator=torch.Generator().manual_seed(2))
    train = split_by_text(40, seed=3)
    x, y = features.double().numpy(), targets.numpy()
    seen, held = x[train.numpy()].reshape(-1, 6), x[~train.numpy()].reshape(-1, 6)
    mean, spread = seen.mean(0), seen.std(0, ddof=1) + 1e-6
    wanted = np.eye(4)[y[train.numpy()].ravel()]
    model = Ridge(alpha=0.01 * len(seen)).fit((seen - mean) / spread, wanted)
    expected = (model.predict((held - mean) / spread).argmax(-1) == y[~train.numpy()].ravel()).mean()
    assert probe_accuracy(features, targets, train) == pytest.approx(expected, abs=0.02)


def test_positions_without_a_target_are_left_out():
    features, targets = drawn()
    gone = targets.clone()
    gone[:, ::2] = IGNORED
    features[:, ::2] = 100.0
    assert probe_accuracy(features, gone, split_by_text(40)) == 1.0


def test_classes_are_the_commonest_ordinary_tokens():
    ids = torch.tensor([[9, 5, 5, 7, 9], [9, 5, 7, 8, 9]])
    ordinary = torch.tensor([[False, True, True, True, False]] * 2)
    assert common_targets(ids, ordinary, 2).tolist() == [[-1, 0, 0, 1, -1], [-1, 0, 1, -1, -1]]
    with pytest.raises(ValueError, match="3 different"):
        common_targets(ids, ordinary, 4)


@pytest.mark.parametrize(
    ("offset", "expected"),
    [(0, [3, 4, 5]), (1, [4, 5, -1]), (-1, [-1, 3, 4]), (2, [5, -1, -1]), (-3, [-1, -1, -1]), (7, [-1, -1, -1])],
)
def test_targets_are_moved_and_nothing_comes_round_the_end(offset, expected):
    assert shifted(torch.tensor([[3, 4, 5]]), offset).tolist() == [expected]


def test_splits_hold_out_whole_texts_and_differ_by_seed():
    first, second = split_by_text(40), split_by_text(40, seed=1)
    assert int(first.sum()) == 30 and not torch.equal(first, second)
    assert torch.equal(first, split_by_text(40))


def test_a_random_projection_keeps_lengths_at_full_width():
    features = torch.randn(5, 12, generator=torch.Generator().manual_seed(0))
    assert torch.allclose(random_projection(features, 12).norm(dim=-1), features.norm(dim=-1), atol=1e-5)
    assert random_projection(features, 3).shape == (5, 3)
    with pytest.raises(ValueError, match="from 1 to 12"):
        random_projection(features, 13)


def test_bad_shapes_and_empty_parts_are_refused():
    features, targets = drawn()
    with pytest.raises(ValueError, match="shapes"):
        probe_accuracy(features[0], targets, split_by_text(40))
    with pytest.raises(ValueError, match="no target"):
        probe_accuracy(features, torch.full_like(targets, IGNORED), split_by_text(40))


def test_passages_of_one_length_have_no_padding(tiny_bert):
    ids = equal_length(tiny_bert.tokenizer, 24, 30, n=10)
    assert 0 < len(ids) <= 10 and ids.shape[1] == 24
    ends = {tiny_bert.tokenizer.cls_token_id, tiny_bert.tokenizer.sep_token_id}
    assert set(ids[:, [0, -1]].flatten().tolist()) == ends
    with pytest.raises(ValueError, match="no passage of 30 words"):
        equal_length(tiny_bert.tokenizer, 10_000, 30)
