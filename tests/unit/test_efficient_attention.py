"""Windows, features and masks against torch's attention, loops and closed forms; costs against counts by hand."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention as sdpa

from utils import attention_cost as cost
from utils import efficient_attention as ea
from utils import fast_weights as fw
from utils import low_rank


def draw(n: int = 50, seed: int = 0) -> torch.Tensor:
    return cost.draw(n, heads=2, d_head=8, seed=seed)


def test_eager_is_torchs_attention():
    q, k, v = draw()
    torch.testing.assert_close(ea.eager(q, k, v), sdpa(q, k, v))


@pytest.mark.parametrize("n", [1, 7, 50, 64])
@pytest.mark.parametrize("reach", [1, 3, 16, 80])
def test_windows_in_blocks_are_attention_under_their_mask(n, reach):
    q, k, v = draw(n)
    mask = ea.window_mask(n, reach)
    torch.testing.assert_close(ea.windowed(q, k, v, reach), sdpa(q, k, v, attn_mask=mask), atol=1e-5, rtol=1e-4)


def test_windows_hold_no_square():
    held = {}
    for n in (2048, 4096):
        inputs = cost.draw(n, heads=1)
        for name, call in cost.methods(n, names=("window", "eager")).items():
            held[name, n] = cost.peak_bytes(lambda f=call, x=inputs: f(*x))
    assert held["window", 4096] < held["eager", 4096] / 3
    assert held["window", 4096] < 2.1 * held["window", 2048] and held["eager", 4096] > 3.9 * held["eager", 2048]


def test_masks_by_hand():
    assert ea.window_mask(3, 1).tolist() == [[True, True, False], [True, True, True], [False, True, True]]
    assert int(ea.window_mask(100, 7).sum()) == 100 * 15 - 7 * 8
    assert int(ea.global_mask(100, 3).sum()) == 2 * 3 * 100 - 9
    links = ea.random_mask(40, 5, seed=1)
    assert links.sum(1).tolist() == [5] * 40 and not torch.equal(links, ea.random_mask(40, 5, seed=2))


def test_layers_until_all_have_heard_of_all():
    assert ea.layers_needed(ea.window_mask(9, 1)) == 8 and ea.layers_needed(ea.window_mask(9, 3)) == 3
    assert ea.layers_needed(ea.global_mask(9, 1)) == 2 and ea.layers_needed(torch.ones(9, 9)) == 1
    assert ea.layers_needed(torch.eye(9).roll(1, 0)) == 8  # each reads the one before: once around


def test_features_first_is_the_kernel_matrix():
    q, k, v = draw()
    q, k = fw.elu_plus_one(q), fw.elu_plus_one(k)
    torch.testing.assert_close(ea.from_features(q, k, v), fw.linear_attention(q, k, v), atol=1e-5, rtol=1e-4)


def test_performers_features_have_the_mean_of_the_softmax_kernel():
    x, y = torch.randn(2, 8, generator=torch.Generator().manual_seed(3), dtype=torch.float64) * 0.7
    w = torch.randn(400_000, 8, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    found = float(ea.positive_features(x, w) @ ea.positive_features(y, w))
    assert found == pytest.approx(math.exp(float(x @ y) / 8**0.5), rel=0.01)
    assert (ea.positive_features(torch.randn(9, 8), w[:5].float()) > 0).all()


def test_performer_is_its_features_and_nears_softmax_with_more_of_them():
    q, k, v = draw() * 0.5
    w = ea.directions(32, 8)
    plain = fw.linear_attention(ea.positive_features(q, w), ea.positive_features(k, w), v)
    torch.testing.assert_close(ea.performer(q, k, v, w), plain, atol=1e-5, rtol=1e-4)
    exact = ea.eager(q, k, v)
    few, many = (ea.error(ea.performer(q, k, v, ea.directions(m, 8)), exact).mean() for m in (16, 4096))
    assert many < 0.1 < few
    assert torch.isfinite(ea.performer(20 * q, 20 * k, v, w)).all()


def test_directions_are_orthogonal_within_a_block_and_of_gaussian_length():
    w = ea.directions(40, 16)
    gram = w[:16] @ w[:16].T
    assert w.shape == (40, 16) and (gram - gram.diag().diag()).abs().max() < 1e-4
    assert float(ea.directions(16 * 200, 16).square().sum(1).mean()) == pytest.approx(16, rel=0.05)


def test_directions_are_uniform_so_that_the_estimate_has_no_bias():
    """The mean of each number is 0 and the mean product of features is e^(q·k/√d): what QR alone gets wrong."""
    drawn = torch.stack([ea.directions(8, 8, seed) for seed in range(2000)]).double()
    assert (drawn.mean(0) * 2000**0.5).abs().max() < 4.5  # in standard errors; of 64 numbers
    assert float(drawn.diagonal(dim1=1, dim2=2).mean()) == pytest.approx(0, abs=0.04)
    x, y = torch.randn(2, 8, generator=torch.Generator().manual_seed(3), dtype=torch.float64) * 0.5
    features = [ea.positive_features(torch.stack([x, y]), w) for w in drawn]
    each = torch.stack([one @ other for one, other in features])
    gap = float(each.mean()) - math.exp(float(x @ y) / 8**0.5)
    assert abs(gap) < 4 * float(each.std()) / 2000**0.5


def test_errors_of_ways_are_means_over_texts_of_each_head():
    layers = [cost.draw(30, heads=3, d_head=4, seed=seed).expand(3, 2, 3, 30, 4) for seed in range(2)]
    found = ea.errors({"uniform": ea.uniform, "all": ea.masked(torch.ones(30, 30, dtype=torch.bool))}, layers)
    assert found["uniform"].shape == (6,) and found["all"].max() < 1e-5
    q, k, v = layers[1]
    assert found["uniform"][4] == pytest.approx(float(ea.error(ea.uniform(q, k, v), sdpa(q, k, v))[0, 1]), rel=1e-4)


def test_the_linformer_that_is_timed_is_that_of_chapter_5():
    q, k, v = draw(200)
    (timed,) = cost.methods(200, names=("Linformer",)).values()
    e = low_rank.gaussian_projection(cost.RANK, 200)
    torch.testing.assert_close(timed(q, k, v), low_rank.projected(q, k, v, e, e))


def test_operations_are_counted_in_fused_kernels_too():
    q, k, v = cost.draw(256)
    for name in ("eager", "SDPA"):
        (call,) = cost.methods(256, names=(name,)).values()
        assert cost.counted_flops(lambda f=call: f(q, k, v)) == 4 * 256**2 * 4 * 32


def test_bytes_of_eager_are_two_copies_of_the_scores():
    q, k, v = cost.draw(512)
    assert cost.peak_bytes(lambda: ea.eager(q, k, v)) == pytest.approx(2 * 4 * 512**2 * 4, rel=0.05)


def test_the_profiler_leaves_no_line_on_the_standard_error(capfd):
    cost.peak_bytes(lambda: torch.zeros(3))
    assert capfd.readouterr().err == ""


def test_times_are_medians_of_calls_in_turns():
    order = []
    found = cost.processor_seconds({"a": lambda: order.append("a"), "b": lambda: order.append("b")}, rounds=2)
    assert order == list("ababab") and set(found) == {"a", "b"} and min(found.values()) >= 0


def test_slopes_and_crossovers_by_hand():
    n = [1, 10, 100]
    assert cost.slopes(n, [3, 30, 3000]).tolist() == pytest.approx([1, 2])
    assert cost.crossover(n, [10, 10, 10], [1, 10**1.5, 1000]) == pytest.approx(10 ** (2 / 3))
    assert cost.crossover(n, [1, 1, 1], [2, 2, 2]) == 1 and cost.crossover(n, [1, 1, 3], [2, 2, 2]) == math.inf


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ea.windowed(*draw(), reach=0), "at least 1"),
        (lambda: ea.directions(0, 8), "at least 1"),
        (lambda: ea.positive_features(torch.ones(3, 8), torch.ones(4, 7)), "width 7 do not fit vectors of width 8"),
        (lambda: cost.methods(64, names=("reformer",)), "no method is called 'reformer'"),
        (lambda: ea.random_mask(4, 5), "from 0 to 4"),
        (lambda: ea.window_mask(4, -1), "not negative"),
        (lambda: ea.layers_needed(torch.ones(4, 4).tril()), "never hear"),
    ],
)
def test_what_does_not_fit_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
