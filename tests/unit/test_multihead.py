"""Attention from scratch, against torch.nn.MultiheadAttention."""

import pytest
import torch
from torch import nn

from utils.attention import MultiHeadAttention, scaled_dot_product_attention


def random(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.fixture
def pair():
    """Our module and torch's with the same weights: width 12, 3 heads."""
    torch.manual_seed(0)
    ours, theirs = MultiHeadAttention(12, 3).eval(), nn.MultiheadAttention(12, 3, batch_first=True).eval()
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([ours.query.weight, ours.key.weight, ours.value.weight]))
        theirs.in_proj_bias.copy_(torch.cat([ours.query.bias, ours.key.bias, ours.value.bias]))
        theirs.out_proj.load_state_dict(ours.output.state_dict())
    return ours, theirs


@pytest.mark.parametrize("need_weights", [True, False])
def test_self_and_cross_attention_equal_torchs(pair, need_weights):
    ours, theirs = pair
    x, memory = random(2, 5, 12), random(2, 7, 12, seed=1)
    for other in (None, memory):
        source = x if other is None else other
        found, weights = ours(x, other, need_weights=need_weights)
        expected, expected_weights = theirs(x, source, source, average_attn_weights=False)
        assert torch.allclose(found, expected, atol=1e-6)
        assert weights is None or torch.allclose(weights, expected_weights, atol=1e-6)


@pytest.mark.parametrize("need_weights", [True, False])
def test_a_mask_equals_torchs(pair, need_weights):
    ours, theirs = pair
    x = random(2, 5, 12)
    causal = torch.ones(5, 5, dtype=torch.bool).tril()
    found, weights = ours(x, mask=causal, need_weights=need_weights)
    expected, _ = theirs(x, x, x, attn_mask=~causal)
    assert torch.allclose(found, expected, atol=1e-6)
    assert weights is None or (weights.triu(1) == 0).all()


@pytest.mark.parametrize("need_weights", [True, False])
def test_a_score_bias_equals_torchs_float_mask(pair, need_weights):
    ours, theirs = pair
    x, bias = random(2, 5, 12), random(3, 5, 5, seed=3)
    found, _ = ours(x, bias=bias, need_weights=need_weights)
    expected, _ = theirs(x, x, x, attn_mask=bias.repeat(2, 1, 1))
    assert torch.allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("need_weights", [True, False])
def test_a_query_that_may_read_nothing_gets_zero_and_never_nan(pair, need_weights):
    ours, _ = pair
    x = random(1, 4, 12)
    mask = torch.ones(4, 4, dtype=torch.bool)
    mask[2] = False
    found, weights = ours(x, mask=mask, bias=random(4, 4, seed=2), need_weights=need_weights)
    assert torch.isfinite(found).all()
    assert torch.allclose(found[0, 2], ours.output.bias, atol=1e-6)
    if need_weights:
        assert torch.equal(weights[0, :, 2], torch.zeros(3, 4))
        assert torch.allclose(weights[0, :, [0, 1, 3]].sum(-1), torch.ones(3, 3))


def test_the_cache_gives_the_same_as_reading_all_at_once(pair):
    ours, _ = pair
    x, memory = random(2, 5, 12), random(2, 3, 12, seed=1)
    causal = torch.ones(5, 5, dtype=torch.bool).tril()
    whole, _ = ours(x, mask=causal)
    cache = {}
    steps = [ours(x[:, i : i + 1], cache=cache)[0] for i in range(5)]
    assert torch.allclose(torch.cat(steps, 1), whole, atol=1e-6)
    cross = {}
    first, _ = ours(x[:, :1], memory, cache=cross)
    again, _ = ours(x[:, :1], torch.zeros_like(memory), cache=cross)  # filled once, then read
    assert torch.equal(first, again)


def test_gradients_equal_torchs(pair):
    ours, theirs = pair
    x = random(2, 5, 12)
    ours(x, need_weights=True)[0].square().sum().backward()
    theirs(x, x, x)[0].square().sum().backward()
    grad = torch.cat([ours.query.weight.grad, ours.key.weight.grad, ours.value.weight.grad])
    assert torch.allclose(grad, theirs.in_proj_weight.grad, atol=1e-4)


def test_rows_of_weights_sum_to_one():
    outputs, weights = scaled_dot_product_attention(random(2, 4, 8), random(2, 6, 8, seed=1), random(2, 6, 3, seed=2))
    assert outputs.shape == (2, 4, 3)
    assert torch.allclose(weights.sum(-1), torch.ones(2, 4))


def test_a_width_that_does_not_divide_is_refused():
    with pytest.raises(ValueError, match="width 10 does not divide into 3 heads"):
        MultiHeadAttention(10, 3)
