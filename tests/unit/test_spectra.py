"""Spectra, ranks, the residual to identical rows, and null models, against numpy, hand-made cases and theory."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from utils.attention import attention_maps
from utils.corpora import passages
from utils.measures import (
    cumulative_spectrum,
    effective_rank,
    needed_rank,
    null_maps,
    null_states,
    numerical_rank,
    permuted_maps,
    rank_residual,
    spectrum,
    stable_rank,
)

MEASURES = (cumulative_spectrum, needed_rank, numerical_rank, effective_rank, stable_rank)


def random(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_spectra_equal_numpy():
    matrices = random(2, 3, 7, 5)
    for index in np.ndindex(2, 3):
        values = np.linalg.svd(matrices[index].numpy(), compute_uv=False)
        for power in (1, 2):
            shares = np.cumsum(values**power) / np.sum(values**power)
            np.testing.assert_allclose(cumulative_spectrum(matrices, power)[index], shares, atol=1e-12)
            assert needed_rank(matrices, 0.7, power)[index] == np.argmax(shares >= 0.7) + 1
        share = values / values.sum()
        assert effective_rank(matrices)[index] == pytest.approx(np.exp(-(share * np.log(share)).sum()), abs=1e-12)
        norm = np.linalg.norm(matrices[index]) / np.linalg.norm(matrices[index], 2)
        assert stable_rank(matrices)[index] == pytest.approx(norm**2, abs=1e-12)
        rank = np.linalg.matrix_rank(matrices[index].numpy(), rtol=0.5)
        assert numerical_rank(matrices, 0.5)[index] == rank


def test_ranks_of_a_diagonal_by_hand():
    matrix = torch.diag(torch.tensor([4.0, 2.0, 1.0, 1.0, 0.0]))
    assert torch.allclose(cumulative_spectrum(matrix), torch.tensor([0.5, 0.75, 0.875, 1, 1]).double())
    assert torch.allclose(cumulative_spectrum(matrix, 2), torch.tensor([16, 20, 21, 22, 22]).double() / 22)
    assert [needed_rank(matrix, share).item() for share in (0.5, 0.75, 0.8, 0.9, 1)] == [1, 2, 3, 4, 4]
    assert needed_rank(matrix, 0.9, power=2) == 2
    assert [numerical_rank(matrix, tolerance).item() for tolerance in (0, 0.25, 0.3, 0.5)] == [4, 2, 2, 1]
    assert effective_rank(matrix) == pytest.approx(2 ** (0.5 + 0.5 + 0.75))  # halves, quarters and eighths
    assert stable_rank(matrix) == pytest.approx(22 / 16)


def test_one_decomposition_serves_all_measures():
    matrices = random(2, 6, 4).float()
    for measure in MEASURES:
        assert torch.equal(measure(spectrum(matrices)), measure(matrices))


def test_zeros_have_rank_zero_and_no_shares():
    zeros = torch.zeros(2, 3, 3)
    assert needed_rank(zeros).tolist() == numerical_rank(zeros).tolist() == [0, 0]
    assert cumulative_spectrum(zeros).isnan().all() and effective_rank(zeros).isnan().all()
    assert stable_rank(zeros).isnan().all()
    assert rank_residual(zeros).isnan().all()


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 2), st.floats(0.01, 1), st.integers(0, 10**6))
def test_measures_keep_their_bounds_for_any_shape(rows, columns, batch, share, seed):
    matrices = random(*[2] * batch, rows, columns, seed=seed)
    rank = min(rows, columns)
    shares = cumulative_spectrum(matrices)
    assert shares.shape == (*[2] * batch, rank)
    assert (shares.diff() >= 0).all() and torch.allclose(shares[..., -1], torch.ones(()).double())
    needed = needed_rank(matrices, share)
    assert ((1 <= needed) & (needed <= rank)).all()
    assert (shares.gather(-1, needed[..., None] - 1)[..., 0] >= share - 1e-9).all()
    for measure in (numerical_rank, effective_rank, stable_rank):
        assert ((measure(matrices) >= 1 - 1e-9) & (measure(matrices) <= rank + 1e-9)).all()
    assert (stable_rank(matrices) <= effective_rank(matrices) + 1e-9).all()
    residual = rank_residual(matrices)
    assert ((residual >= 0) & (residual <= 1 + 1e-12)).all()


@pytest.mark.parametrize("measure", [*MEASURES, rank_residual])
def test_what_is_no_matrix_is_refused_with_its_shape(measure):
    for bad in (torch.zeros(3), torch.zeros(2, 0), torch.zeros(0, 4)):
        with pytest.raises(ValueError, match=r"needed, got the shape \(" + str(bad.shape[0])):
            measure(bad)
    with pytest.raises(ValueError, match="holds NaN or infinity"):
        measure(torch.tensor([[1.0, torch.nan], [0, 1]]))
    with pytest.raises(TypeError, match="must be a tensor of real numbers, got ndarray"):
        measure(np.eye(2))
    with pytest.raises(TypeError, match="got torch.complex64"):
        measure(torch.eye(2).to(torch.complex64))


def test_bad_options_are_refused_by_name():
    with pytest.raises(ValueError, match="power must be 1 .* or 2 .*, got 3"):
        cumulative_spectrum(torch.eye(2), 3)
    with pytest.raises(ValueError, match="share must lie above 0 and be 1 at most, got 90"):
        needed_rank(torch.eye(2), 90)
    with pytest.raises(ValueError, match="tolerance must be from 0 to below 1, got 2"):
        numerical_rank(torch.eye(2), 2)
    with pytest.raises(ValueError, match='norm must be "frobenius" or "composite", got \'l2\''):
        rank_residual(torch.eye(2), norm="l2")
    with pytest.raises(ValueError, match=r"an entry for each token, \(2, 3\), got \(2, 4\)"):
        rank_residual(torch.ones(2, 3, 5), torch.ones(2, 4))
    with pytest.raises(ValueError, match="a text without any token"):
        rank_residual(torch.ones(2, 3, 5), torch.tensor([[1, 1, 1], [0, 0, 0]]))
    with pytest.raises(ValueError, match="kind must be one of 'gaussian', 'low-rank', 'uniform', 'shift', got 'noise'"):
        null_maps(4, "noise")
    for bad in (0, 2.5, True):
        with pytest.raises(ValueError, match="n must be a whole number of at least 1"):
            null_maps(bad, "uniform")
        with pytest.raises(ValueError, match="n must be a whole number of at least 1"):
            null_states(bad, 3)


def test_residual_by_hand():
    states = torch.tensor([[1.0, 3.0], [3.0, 3.0]])  # the mean row is (2, 3), what is left is ∓1 in the first column
    assert rank_residual(states) == pytest.approx((2 / 28) ** 0.5)
    assert rank_residual(states, norm="composite") == pytest.approx((2 * 1 / (6 * 6)) ** 0.5)
    assert rank_residual(torch.ones(4, 3)) == 0
    assert rank_residual(torch.tensor([[1.0], [-1.0]])) == 1


def test_the_mean_row_is_the_nearest_one():
    states = random(6, 4)
    least = rank_residual(states)
    for seed in range(20):
        row = states.mean(0) + 0.1 * random(4, seed=seed)
        assert (states - row).norm() / states.norm() > least


def test_padding_does_not_change_the_residual():
    states = random(3, 2, 7, 4)
    states[..., 4:, :] = torch.nan  # whatever the model left there
    mask = torch.tensor([1, 1, 1, 1, 0, 0, 0])
    for norm in ("frobenius", "composite"):
        alone = rank_residual(states[..., :4, :], norm=norm)
        assert alone.shape == (3, 2)
        assert torch.allclose(rank_residual(states, mask.expand(2, 7), norm), alone, atol=1e-12)
        assert torch.allclose(rank_residual(states, mask, norm), alone, atol=1e-12)
    with pytest.raises(ValueError, match="in tokens that count"):
        rank_residual(states, torch.ones(2, 7))


def test_float64_states_show_residuals_below_the_floor_of_float32():
    states = torch.ones(8, 4, dtype=torch.float64)
    states[0, 0] += 1e-12
    assert rank_residual(states).dtype == torch.float64
    assert 0 < rank_residual(states) < 1e-12
    assert rank_residual(states.float()) == 0


def test_one_layer_of_pure_attention_cuts_small_residuals_to_their_cube():
    """Dong et al. 2021, theorem: the residual after a layer is bounded by a constant times its third power."""
    states, projection = random(16, 8), random(8, 8, seed=1)
    common, logs = random(1, 8, seed=2), []
    for size in (1e-1, 3e-2, 1e-2, 3e-3):
        layer = common + size * states
        centred = layer - layer.mean(0)
        out = (centred @ projection @ centred.T).softmax(-1) @ layer
        logs.append((rank_residual(layer).log(), rank_residual(out).log()))
    before, after = (torch.stack(each) for each in zip(*logs, strict=True))
    slope = ((after[-1] - after[0]) / (before[-1] - before[0])).item()
    assert slope == pytest.approx(3, abs=0.1)


def test_null_states_have_the_stated_residual():
    found = rank_residual(null_states(16, 64, samples=200, seed=1))
    assert found.mean() == pytest.approx((1 - 1 / 16) ** 0.5, abs=4 * found.std().item() / 200**0.5 + 1e-3)
    assert found.std() < 0.01


@pytest.mark.parametrize("kind", ["gaussian", "low-rank", "uniform", "shift"])
def test_null_maps_are_maps_and_follow_their_seed(kind):
    maps = null_maps(9, kind, samples=3, seed=4)
    assert maps.shape == (3, 9, 9) and maps.dtype == torch.float64
    assert torch.allclose(maps.sum(-1), torch.ones(3, 9).double())
    assert torch.equal(maps, null_maps(9, kind, samples=3, seed=4))
    drawn = kind in ("gaussian", "low-rank")
    assert torch.equal(maps, null_maps(9, kind, samples=3, seed=5)) is not drawn


def test_null_maps_have_the_stated_spectra():
    n, k = 256, 64
    share = {kind: cumulative_spectrum(null_maps(n, kind, d_head=32))[0, k - 1] for kind in ("gaussian", "low-rank")}
    assert 0.46 < share["gaussian"] < 0.53  # claims: .49 to .54 at n = 512
    assert 0.62 < share["low-rank"] < 0.72  # .66 to .68
    uniform, shift = (spectrum(null_maps(n, kind)) for kind in ("uniform", "shift"))
    assert cumulative_spectrum(uniform)[0, 0] == pytest.approx(1)
    assert [measure(uniform).item() for measure in (needed_rank, numerical_rank)] == [1, 1]
    assert cumulative_spectrum(shift)[0, k - 1] == pytest.approx(0.25)
    assert needed_rank(shift) == 231  # 0.9 · 256 = 230.4
    assert [measure(shift).item() for measure in (effective_rank, stable_rank)] == pytest.approx([n, n])


def test_softmax_raises_the_numerical_rank():
    queries, keys = random(2, 96, 8)
    scores = queries @ keys.T / 8**0.5
    assert numerical_rank(scores) == 8
    assert numerical_rank(scores.softmax(-1)) > 80


def test_a_shift_map_reads_its_offset():
    maps = null_maps(5, "shift", offset=-1)[0]
    assert maps.argmax(-1).tolist() == [4, 0, 1, 2, 3]
    assert null_maps(5, "shift", offset=2)[0].argmax(-1).tolist() == [2, 3, 4, 0, 1]


def test_permuted_rows_keep_their_weights_and_causal_ones_keep_the_future_at_zero():
    maps = random(3, 6, 6).softmax(-1)
    mixed = permuted_maps(maps)
    assert not torch.equal(mixed, maps)
    assert torch.equal(mixed.sort(-1).values, maps.sort(-1).values)
    causal = maps.tril() / maps.tril().sum(-1, keepdim=True)
    mixed = permuted_maps(causal, causal=True, seed=1)
    assert not mixed.triu(1).any() and not torch.equal(mixed, causal)
    assert torch.equal(mixed.sort(-1).values, causal.sort(-1).values)
    assert torch.equal(mixed, permuted_maps(causal, causal=True, seed=1))
    with pytest.raises(TypeError, match="maps must be a tensor"):
        permuted_maps([[1.0]])
    for seed in ("a", None, 1.5, -1, True):
        for function in (lambda s: permuted_maps(torch.ones(2, 2), seed=s), lambda s: null_states(2, 2, seed=s)):
            with pytest.raises(ValueError, match="seed must be a whole number from 0 on"):
                function(seed)
    for name, value in (("scale", float("nan")), ("scale", "a"), ("offset", 0.5), ("seed", 2**64)):
        with pytest.raises(ValueError, match=f"{name} must be a"):
            null_maps(3, "gaussian", **{name: value})
    with pytest.raises(ValueError, match="queries, keys"):
        permuted_maps(torch.ones(3))


def test_minilms_spectra_lie_between_a_shift_and_a_uniform_map(minilm):
    """The chapter's facts on a short text: later layers need fewer dimensions, the positional heads the most."""
    text = max(passages(), key=len)
    weights = attention_maps(*minilm, text)["encoder"].weights
    n = weights.shape[-1]
    shares = cumulative_spectrum(weights)[..., n // 4 - 1]
    assert shares.shape == (6, 12)
    lowest = shares.flatten().topk(2, largest=False).indices.tolist()
    assert {divmod(each, 12) for each in lowest} == {(0, 2), (1, 8)}
    noise = cumulative_spectrum(null_maps(n, "low-rank", samples=4, d_head=32))[:, n // 4 - 1].mean()
    assert shares.mean(1)[5] > 0.9 > noise > shares[0, 2]
    assert shares.mean() > noise
    needed = needed_rank(weights).double().mean() / n
    assert 0.2 < needed < 0.4
