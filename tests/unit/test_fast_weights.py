"""Rules that write a memory, against explicit loops and cases computed by hand."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from utils import fast_weights as fw


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def unit(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.nn.functional.normalize(normal(*shape, seed=seed), dim=-1)


def loop(keys, values, beta, passes=1):
    """The delta rule as it is written in the paper, one pair after the other."""
    memory = torch.zeros(values.shape[1], keys.shape[1], dtype=keys.dtype)
    for _ in range(passes):
        for key, value, strength in zip(keys, values, beta, strict=True):
            memory = memory + strength * torch.outer(value - memory @ key, key)
    return memory


@settings(deadline=None, max_examples=25)
@given(st.integers(1, 12), st.integers(1, 6), st.integers(1, 5), st.integers(0, 9))
def test_the_delta_rule_without_a_loop_equals_the_loop(n, d, d_value, seed):
    keys, values = unit(n, d, seed=seed), normal(n, d_value, seed=seed + 100)
    beta = torch.rand(n, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    for passes in (1, 3):
        expected = loop(keys, values, beta, passes)
        torch.testing.assert_close(fw.delta_rule(keys, values, beta, passes), expected, rtol=1e-9, atol=1e-9)


def test_delta_takes_one_strength_for_all_and_batches():
    keys, values = unit(3, 2, 7, 4), normal(3, 2, 7, 5)
    memory = fw.delta_rule(keys, values, 0.5)
    assert memory.shape == (3, 2, 5, 4)
    torch.testing.assert_close(memory[2, 1], loop(keys[2, 1], values[2, 1], [0.5] * 7))


def test_delta_overwrites_and_sum_adds():
    keys = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    values = torch.tensor([[1.0], [2.0], [5.0]])
    assert fw.read(fw.delta_rule(keys, values), keys).tolist() == [[5.0], [2.0], [5.0]]
    assert fw.read(fw.sum_rule(keys, values), keys).tolist() == [[6.0], [2.0], [6.0]]


def test_sum_rule_is_a_sum_of_outer_products():
    keys, values = normal(6, 3), normal(6, 4, seed=1)
    expected = sum(torch.outer(v, k) for k, v in zip(keys, values, strict=True))
    torch.testing.assert_close(fw.sum_rule(keys, values), expected)


def test_orthogonal_keys_are_read_back_exactly_by_every_rule():
    keys, values = torch.linalg.qr(normal(8, 8)).Q, normal(8, 3, seed=1)
    for rule in (fw.sum_rule, fw.delta_rule, fw.best_memory):
        assert fw.relative_error(fw.read(rule(keys, values), keys), values) < 1e-25


def test_many_passes_approach_the_least_squares_memory():
    keys, values = unit(6, 8), normal(6, 3, seed=1)
    best = fw.best_memory(keys, values)
    assert fw.relative_error(fw.read(best, keys), values) < 1e-20
    errors = [float((fw.delta_rule(keys, values, passes=p) - best).norm()) for p in (1, 10, 300)]
    assert errors[0] > errors[1] > errors[2] and errors[2] < 1e-3 * errors[0]


def test_no_memory_beats_the_best_one_beyond_its_width():
    keys, values = unit(40, 8), normal(40, 500, seed=1)
    errors = [
        float(fw.relative_error(fw.read(rule(keys, values), keys), values))
        for rule in (fw.best_memory, fw.delta_rule, fw.sum_rule)
    ]
    assert errors == sorted(errors) and errors[0] == pytest.approx(1 - 8 / 40, abs=0.02)


def test_linear_attention_equals_a_loop_over_memories():
    queries, keys, values = (fw.elu_plus_one(normal(9, 4, seed=s)) for s in range(3))
    memory, total, rows = torch.zeros(4, 4, dtype=torch.float64), torch.zeros(4, dtype=torch.float64), []
    for q, k, v in zip(queries, keys, values, strict=True):
        memory, total = memory + torch.outer(v, k), total + k
        rows.append([memory @ q / (total @ q), memory @ q])
    for normalised, place in ((True, 0), (False, 1)):
        found = fw.linear_attention(queries, keys, values, causal=True, normalised=normalised)
        torch.testing.assert_close(found, torch.stack([row[place] for row in rows]))
    everything = fw.linear_attention(queries, keys, values)
    torch.testing.assert_close(everything[-1], rows[-1][0])
    read = fw.read(fw.sum_rule(keys, values), queries) / fw.normaliser(keys, queries)
    torch.testing.assert_close(everything, read)


def test_softmax_read_equals_torch_and_finds_the_nearest_key():
    queries, keys, values = normal(2, 5, 4), normal(2, 7, 4, seed=1), normal(2, 7, 3, seed=2)
    expected = torch.nn.functional.scaled_dot_product_attention(queries, keys, values)
    torch.testing.assert_close(fw.softmax_read(keys, values, queries, 0.5), expected)
    keys = unit(7, 4)
    torch.testing.assert_close(fw.softmax_read(keys, values[0], keys, 1e4), values[0])


def test_dpfp_by_hand():
    x = torch.tensor([1.0, -2.0])  # r = [1, 0, 0, 2]; shifted by 1: [2, 1, 0, 0]; by 2: [0, 2, 1, 0]
    assert fw.dpfp(x).tolist() == [2.0, 0.0, 0.0, 0.0]
    assert fw.dpfp(x, 2).tolist() == [2.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    assert fw.dpfp(torch.tensor([1.0, 2.0])).tolist() == [0.0, 2.0, 0.0, 0.0]  # r = [1, 2, 0, 0], shifted [0, 1, 2, 0]


@pytest.mark.parametrize("nu", [1, 2, 3])
def test_dpfp_has_2_d_nu_features_that_span_all_of_them(nu):
    features = fw.dpfp(normal(400, 16), nu)
    assert features.shape == (400, 32 * nu) and (features >= 0).all()
    assert torch.linalg.matrix_rank(features) == 32 * nu


def test_other_features():
    x = normal(5, 3)
    assert fw.identity(x) is x
    expected = torch.where(x > 0, x + 1, x.exp())
    torch.testing.assert_close(fw.elu_plus_one(x), expected)


def test_errors_and_accuracy_by_hand():
    values = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    assert fw.relative_error(torch.zeros(2, 2), values) == 1
    assert fw.relative_error(values, values) == 0
    assert fw.recall_accuracy(values, values) == 1
    assert fw.recall_accuracy(values.flip(0), values) == 0
    assert fw.recall_accuracy(torch.tensor([[9.0, 0.0], [0.9, 0.8]]), values) == 0.5


def test_distance_and_direction_disagree_where_an_answer_is_short_or_shifted():
    values = torch.tensor([[4.0, 0.0], [0.0, 1.0], [-1.0, -1.0]])
    assert fw.recalled(0.1 * values, values).tolist() == [False, True, False]  # near 0 lies the shortest value
    for found in (0.1 * values, values + torch.tensor([5.0, -7.0]), values):
        assert fw.recalled(found, values, by="direction").all()
    assert fw.recalled(-values, values, by="direction").tolist() == [False, False, False]
    with pytest.raises(ValueError, match="by must be"):
        fw.recalled(values, values, by="cosine")


@pytest.mark.parametrize("shape", [(9, 4), (3, 2, 9, 4)])
def test_direction_against_a_loop(shape):
    found, values = normal(*shape), normal(*shape, seed=1) + 3
    found = found + values
    rows = []
    for f, v in zip(found.reshape(-1, *shape[-2:]), values.reshape(-1, *shape[-2:]), strict=True):
        f, v = f - f.mean(0), v - v.mean(0)
        table = [[float(torch.cosine_similarity(a, b, dim=0)) for b in v] for a in f]
        rows.append([max(range(9), key=row.__getitem__) == i for i, row in enumerate(table)])
    expected = torch.tensor(rows).reshape(shape[:-1])
    assert 0 < expected.double().mean() < 1
    assert torch.equal(fw.recalled(found, values, by="direction"), expected)
    share = fw.recall_accuracy(found, values, by="direction")
    torch.testing.assert_close(share, expected.to(values.dtype).mean(-1))


def test_cosines_and_crosstalk_by_hand():
    keys = torch.tensor([[2.0, 0.0], [0.0, 3.0], [1.0, 1.0]])
    half = math.sqrt(0.5)
    torch.testing.assert_close(fw.cosines(keys), torch.tensor([0.0, half, 0.0, half, half, half]))
    assert float(fw.crosstalk(keys)) == pytest.approx(2 / 3)


def test_crosstalk_is_the_expected_error_of_the_sum_rule():
    keys, values = unit(30, 8), normal(200, 30, 50, seed=3)
    error = fw.relative_error(fw.read(fw.sum_rule(keys.expand(200, -1, -1), values), keys), values).mean()
    assert float(error) == pytest.approx(float(fw.crosstalk(keys)), rel=0.01)
    random = fw.crosstalk(unit(300, 30, 8, seed=4))
    assert float(random.mean()) == pytest.approx(29 / 8, rel=0.02)
    assert random.min() > 30 / 8 - 1


@pytest.mark.parametrize("nu", [0, 6, -1])
def test_a_shift_that_is_none_is_refused(nu):
    with pytest.raises(ValueError, match="from 1 to 5"):
        fw.dpfp(torch.zeros(3), nu)


@pytest.mark.parametrize("shapes", [((3, 2), (4, 2)), ((3,), (3, 2)), ((3, 2), (2,))])
def test_keys_and_values_come_in_pairs(shapes):
    keys, values = (torch.zeros(shape) for shape in shapes)
    for function in (fw.sum_rule, fw.delta_rule, fw.best_memory):
        with pytest.raises(ValueError, match="in pairs"):
            function(keys, values)
