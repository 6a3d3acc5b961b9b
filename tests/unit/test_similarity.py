"""Heads against heads: scipy and numpy as references, planted matchings, and null models."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import jensenshannon

from utils.attention import attention_maps
from utils.corpora import passages
from utils.measures import head_similarity, match_heads, permuted_maps
from utils.models import untrained


def maps(*shape, seed=0, scale=2.0):
    scores = torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return (scale * scores).softmax(-1)


def test_similarities_equal_scipy_and_numpy():
    left, right = [maps(3, 4, 5), maps(3, 2, 6, seed=1)], [maps(2, 4, 5, seed=2), maps(2, 2, 6, seed=3)]
    distance, correlation = np.empty((3, 2)), np.empty((3, 2))
    for a, b in np.ndindex(3, 2):
        pairs = [(x[a].numpy(), y[b].numpy()) for x, y in zip(left, right, strict=True)]
        distance[a, b] = np.mean(np.concatenate([jensenshannon(x, y, base=2, axis=1) for x, y in pairs]))
        flat = [
            np.concatenate([(m - m.mean(1, keepdims=True)).ravel() for m in side]) for side in zip(*pairs, strict=True)
        ]
        correlation[a, b] = np.corrcoef(*flat)[0, 1]
    np.testing.assert_allclose(head_similarity(left, right), 1 - distance, atol=1e-9)
    np.testing.assert_allclose(head_similarity(left, right, "correlation"), correlation, atol=1e-9)


def test_the_ends_of_the_scales():
    shift = torch.eye(6).roll(1, 1)
    both = torch.stack([torch.eye(6), shift])
    assert torch.equal(head_similarity(both, both), torch.eye(2).double())
    found = head_similarity(both, both, "correlation")
    assert found.diagonal() == pytest.approx(torch.ones(2)) and found[0, 1] < 0
    uniform = torch.full((1, 6, 6), 1 / 6)
    assert head_similarity(uniform, uniform) == 1
    assert head_similarity(uniform, both, "correlation").isnan().all()


def test_layers_are_flattened_to_heads():
    weights = maps(2, 3, 4, 4)
    found = head_similarity(weights, weights)
    assert found.shape == (6, 6) and found.diagonal() == pytest.approx(torch.ones(6).double())
    assert found[4, 1] == pytest.approx(head_similarity(weights[1, 1], weights[0, 1]).item())


@settings(deadline=None, max_examples=25)
@given(st.permutations(range(6)), st.sampled_from(["jensen-shannon", "correlation"]), st.integers(0, 10**6))
def test_a_planted_permutation_is_found_again(order, measure, seed):
    weights = maps(6, 8, 8, seed=seed)
    noisy = 0.9 * weights[list(order)] + 0.1 * maps(6, 8, 8, seed=seed + 1)
    found = match_heads(head_similarity(weights, noisy, measure))
    assert [order[b] for b in found["head_b"]] == found["head_a"].tolist() == list(range(6))
    assert (found["similarity"] == found["best"]).all() and (found["similarity"] > found["chance"]).all()


def test_a_matching_is_best_as_a_whole_not_for_each():
    found = match_heads(torch.tensor([[0.9, 0.8, 0.1], [0.8, 0.1, 0.0]]))
    assert found[["head_a", "head_b"]].to_numpy().tolist() == [[0, 1], [1, 0]]  # 0.8 + 0.8 beats 0.9 + 0.1
    assert found["best"].tolist() == pytest.approx([0.9, 0.8])
    assert found["chance"].tolist() == pytest.approx([0.6, 0.3])
    assert len(match_heads(torch.rand(4, 2))) == 2  # the smaller set is matched


def test_permuted_maps_are_the_null_of_likeness():
    weights = maps(12, 30, 30)
    alike = 0.7 * weights + 0.3 * maps(12, 30, 30, seed=1)
    for measure in ("jensen-shannon", "correlation"):
        real = match_heads(head_similarity(weights, alike, measure))["similarity"].mean()
        null = match_heads(head_similarity(weights, permuted_maps(alike), measure))["similarity"].mean()
        assert real > null + 0.3
    assert head_similarity(weights, permuted_maps(weights), "correlation").mean() == pytest.approx(0, abs=0.01)


def test_heads_of_minilm_are_more_different_than_untrained_ones(minilm):
    """Untrained maps are near uniform, hence all alike; the correlation sees that they share nothing."""
    other = [untrained(minilm.model, seed) for seed in (0, 1)]
    texts = passages(2, words=30)
    trained, first, second = (
        [attention_maps(model, minilm.tokenizer, text)["encoder"].weights for text in texts]
        for model in (minilm.model, *other)
    )
    assert head_similarity(trained, trained).mean() < 0.6 < 0.85 < head_similarity(first, second).mean()
    assert head_similarity(first, second, "correlation").abs().max() < 0.4
    assert head_similarity(trained, trained, "correlation").mean() > 0.3


def test_what_does_not_fit_is_refused():
    weights = maps(2, 4, 4)
    for bad, message in (
        ((weights, maps(2, 5, 5)), r"the same texts, got \(queries, keys\) \[\(4, 4\)\] and \[\(5, 5\)\]"),
        ((weights, [weights, weights]), "the same texts"),
        (([weights, maps(3, 4, 4)], [weights] * 2), r"weights_a must have the same heads for every text, got \[2, 3\]"),
        (([], weights), "weights_a is empty"),
        ((weights, torch.ones(4)), r"weights_b must hold maps \(…, queries, keys\), got the shape \(4,\)"),
        ((weights, weights * 2), "weights_b: rows must be weights that sum to 1, got sums from 2 to 2"),
        ((weights, weights * torch.nan), "weights_b: rows must be weights that sum to 1"),
        ((weights, 1 - weights), "weights_b: rows must be weights that sum to 1"),
    ):
        with pytest.raises(ValueError, match=message):
            head_similarity(*bad)
    with pytest.raises(TypeError, match="weights_a must be a tensor or a list of tensors, got ndarray in it"):
        head_similarity([weights.numpy()], [weights])
    for wrong in (None, "ab", [["a"]]):
        with pytest.raises(TypeError, match=r"similarity must be a matrix \(heads of A, heads of B\), got"):
            match_heads(wrong)
    with pytest.raises(ValueError, match="measure must be one of 'jensen-shannon', 'correlation', got 'cosine'"):
        head_similarity(weights, weights, "cosine")
    for bad in (torch.ones(3), torch.ones(0, 3), torch.tensor([[torch.nan]])):
        with pytest.raises(ValueError, match=r"a finite matrix \(heads of A, heads of B\)"):
            match_heads(bad)
