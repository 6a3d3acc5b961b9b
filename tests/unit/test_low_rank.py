"""Truncated maps, projections of the length axis, and rules in place of a model's attention."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from utils import low_rank
from utils.models import load, untrained


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.fixture(scope="module")
def minilm():
    return load("minilm")


@pytest.fixture(scope="module")
def small(minilm):
    return untrained(minilm.model)


def test_truncation_is_numpys_and_its_error_is_what_is_left_out():
    weights = low_rank.attention_weights(random(3, 12, 4), random(3, 12, 4, seed=1)).double()
    left, sigma, right = np.linalg.svd(weights.numpy())
    for k in (1, 5, 12):
        found = low_rank.truncated(weights, k)
        np.testing.assert_allclose(found, (left[..., :k] * sigma[:, None, :k]) @ right[:, :k], atol=1e-12)
        error = (found - weights).square().sum((1, 2)).numpy()
        np.testing.assert_allclose(error, (sigma[:, k:] ** 2).sum(1), atol=1e-12)


def test_top_keys_keeps_the_greatest_weights_of_each_row():
    weights = torch.tensor([[0.5, 0.1, 0.4], [0.2, 0.3, 0.5]])
    expected = torch.tensor([[5 / 9, 0, 4 / 9], [0, 3 / 8, 5 / 8]])
    assert torch.allclose(low_rank.top_keys(weights, 2), expected)
    assert torch.allclose(low_rank.top_keys(weights, 3), weights)


def test_with_the_identity_projected_attention_is_attention():
    queries, keys, values = random(3, 2, 2, 10, 4)
    same = low_rank.projected(queries, keys, values, torch.eye(10), torch.eye(10))
    assert torch.allclose(same, scaled_dot_product_attention(queries, keys, values), atol=1e-6)


def test_with_one_mean_projected_attention_is_the_mean_value():
    queries, keys, values = random(3, 2, 10, 4)
    mean = low_rank.mean_pooling(1, 10)
    found = low_rank.projected(queries, keys, values, mean, mean)
    assert torch.allclose(found, values.mean(-2, keepdim=True).expand_as(found), atol=1e-6)


def test_a_projection_for_another_length_is_refused():
    queries, keys, values = random(3, 10, 4)
    with pytest.raises(ValueError, match="made for one length"):
        low_rank.projected(queries, keys, values, torch.eye(9), torch.eye(9))


def test_blocks_of_mean_pooling_are_neighbours_of_nearly_one_length():
    pooling = low_rank.mean_pooling(3, 8)
    assert torch.allclose(pooling.sum(-1), torch.ones(3))
    sizes = (pooling > 0).sum(-1)
    assert sizes.sum() == 8 and sizes.max() - sizes.min() <= 1
    assert (pooling > 0).float().argmax(-1).tolist() == sorted((pooling > 0).float().argmax(-1).tolist())


def test_a_gaussian_projection_keeps_inner_products_on_average():
    x, y = random(2, 40)
    found = torch.tensor(
        [float((r @ x) @ (r @ y)) for r in (low_rank.gaussian_projection(20, 40, seed=seed) for seed in range(2000))]
    )
    variance = float((x.square().sum() * y.square().sum() + (x @ y) ** 2) / 20)
    assert abs(float(found.mean() - x @ y)) < 4 * (variance / 2000) ** 0.5
    assert float(found.var()) == pytest.approx(variance, rel=0.15)


@pytest.mark.parametrize("k", [0, 11])
def test_ranks_that_do_not_exist_are_refused(k):
    weights = torch.eye(10)
    for attempt in (low_rank.truncated, low_rank.top_keys):
        with pytest.raises(ValueError, match="from 1 to 10"):
            attempt(weights, k)
    for make in (low_rank.mean_pooling, low_rank.gaussian_projection):
        with pytest.raises(ValueError, match="from 1 to 10"):
            make(k, 10)


def test_windows_of_tokens_do_not_overlap_and_are_whole(minilm):
    ids = low_rank.token_windows(minilm.tokenizer, 64)
    assert ids.shape[1] == 64 and len(ids) > 300
    assert set(ids[:, 0].tolist()) == {minilm.tokenizer.cls_token_id}
    assert set(ids[:, -1].tolist()) == {minilm.tokenizer.sep_token_id}
    assert torch.equal(low_rank.token_windows(minilm.tokenizer, 64, 3, start=2), ids[2:5])
    with pytest.raises(ValueError, match="there are"):
        low_rank.token_windows(minilm.tokenizer, 64, 10, start=len(ids) - 5)


@torch.no_grad()
def test_a_rule_that_is_attention_changes_nothing_and_is_gone_afterwards(small):
    ids = torch.arange(32).view(2, 16) + 1000
    before = small(input_ids=ids).last_hidden_state
    backend = small.config._attn_implementation
    with low_rank.replaced(small, lambda layer, q, k, v: low_rank.attention_weights(q, k) @ v):
        inside = small(input_ids=ids).last_hidden_state
    assert torch.allclose(inside, before, atol=1e-5)
    with pytest.raises(ZeroDivisionError), low_rank.replaced(small, lambda *_: 1 / 0):
        small(input_ids=ids)
    assert small.config._attn_implementation == backend
    assert torch.equal(small(input_ids=ids).last_hidden_state, before)


@torch.no_grad()
def test_a_rule_acts_on_its_layer_and_a_mask_is_refused(small):
    ids, layers = torch.arange(32).view(2, 16) + 1000, []
    with low_rank.replaced(small, lambda layer, q, k, v: (layers.append(layer), 0 * v)[1]):
        small(input_ids=ids)
        mask = torch.ones_like(ids)
        mask[0, 10:] = 0
        with pytest.raises(ValueError, match="without padding"):
            small(input_ids=ids, attention_mask=mask)
    assert layers == list(range(6))


def test_heads_of_a_text_are_what_the_model_attends_with(minilm):
    ids = low_rank.token_windows(minilm.tokenizer, 16, 2)
    heads = low_rank.heads_of_text(minilm.model, ids)
    assert len(heads) == 6 and heads[0][0].shape == (2, 12, 16, 32)
    minilm.model.set_attn_implementation("eager")
    maps = minilm.model(input_ids=ids, output_attentions=True).attentions
    minilm.model.set_attn_implementation("sdpa")
    for (queries, keys, _), weights in zip(heads, maps, strict=True):
        assert torch.allclose(low_rank.attention_weights(queries, keys), weights, atol=1e-5)


def test_training_a_projection_lowers_the_error_on_other_texts_and_is_repeatable():
    values = random(40, 2, 12, 4)
    heads = (torch.zeros_like(values), random(40, 2, 12, 4, seed=1), values + 1)  # uniform attention: easy to learn
    e, f = low_rank.gaussian_projection(3, 12, seed=0), low_rank.gaussian_projection(3, 12, seed=1)
    fitted = low_rank.fit_projection([part[:30] for part in heads], e, f, steps=200, rate=0.05, seed=0)
    again = low_rank.fit_projection([part[:30] for part in heads], e, f, steps=200, rate=0.05, seed=0)
    assert all(torch.equal(one, two) for one, two in zip(fitted, again, strict=True))
    test = [part[30:] for part in heads]
    whole = scaled_dot_product_attention(*test)
    error = [float((low_rank.projected(*test, *pair) - whole).norm() / whole.norm()) for pair in ((e, f), fitted)]
    assert error[1] < 0.1 < 0.5 < error[0]
