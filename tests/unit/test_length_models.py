"""Positions against their definitions, readings against each other, and the two sweeps of chapter 10."""

from __future__ import annotations

import math

import pytest
import torch

from tools.sweeps import attention_cost as cost_sweep
from tools.sweeps import length_extrapolation as length_sweep
from utils import attention_cost as cost
from utils import length_models as lm
from utils.sweeps import sweep
from utils.training import fit

IDS = torch.randint(64, (2, 41), generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("positions", lm.POSITIONS)
def test_no_loss_depends_on_later_characters(positions):
    model = lm.TinyLanguageModel(positions).eval()
    changed = IDS.clone()
    changed[:, 30:] = (changed[:, 30:] + 1) % 64
    before, after = lm.position_losses(model, IDS), lm.position_losses(model, changed)
    assert torch.equal(before[:, :29], after[:, :29]) and not torch.allclose(before[:, 30:], after[:, 30:])


def test_each_kind_of_positions_tells_orders_apart_and_differs_from_the_others():
    swapped = IDS.clone()
    swapped[:, [3, 4]] = swapped[:, [4, 3]]
    found = {}
    for positions in lm.POSITIONS:
        model = lm.TinyLanguageModel(positions).eval()
        found[positions] = lm.position_losses(model, IDS)
        assert not torch.allclose(found[positions][:, -1], lm.position_losses(model, swapped)[:, -1], atol=1e-6)
    assert torch.equal(found["sinusoidal"], found["sinusoidal, shifted"])  # they differ in training alone
    others = [found[name] for name in ("sinusoidal", "rotary", "relative", "ALiBi", "none")]
    assert all(not torch.allclose(a, b) for i, a in enumerate(others) for b in others[:i])


@pytest.mark.parametrize("positions", ["rotary", "relative", "ALiBi", "none"])
def test_relative_positions_do_not_see_where_a_text_begins(positions):
    """Two layers with a window of 8 reach 14 places back: beyond that, what stands before does not matter."""
    model = lm.TinyLanguageModel(positions).eval()
    late = lm.position_losses(model, IDS[:, 10:], window=8)[:, 20:]
    torch.testing.assert_close(lm.position_losses(model, IDS, window=8)[:, 30:], late, atol=1e-4, rtol=1e-4)


def test_sinusoidal_positions_do():
    model = lm.TinyLanguageModel("sinusoidal").eval()
    late = lm.position_losses(model, IDS[:, 10:], window=8)[:, 20:]
    assert not torch.allclose(lm.position_losses(model, IDS, window=8)[:, 30:], late, atol=1e-3)


def test_a_rotation_keeps_lengths_and_makes_products_depend_on_distance():
    q, k = torch.randn(2, 8, generator=torch.Generator().manual_seed(1))
    turned_q, turned_k = lm.rotate(q.expand(20, 8)), lm.rotate(k.expand(20, 8))
    scores = turned_q @ turned_k.T
    for distance in (0, 3, 11):
        torch.testing.assert_close(scores.diagonal(-distance), scores[distance, 0].expand(20 - distance))
    torch.testing.assert_close(turned_q.norm(dim=-1), q.norm().expand(20))


def test_alibi_by_hand():
    bias = lm.alibi(3, 4)
    assert bias[:, 2, 0].tolist() == [-0.5, -0.125, -0.03125, -0.0078125] and bias[0, 2, 2] == 0


def test_relative_scores_by_loops():
    layer = lm.Layer(16, 2, "relative")
    q, k = torch.randn(2, 1, 2, 20, 8, generator=torch.Generator().manual_seed(2))
    found = layer.scores(q, k)
    for i, j in ((19, 0), (19, 3), (5, 5), (7, 4)):
        expected = q[0, :, i] * (k[0, :, j] + layer.distance[min(i - j, lm.CLIP)])
        torch.testing.assert_close(found[0, :, i, j], expected.sum(-1) / 8**0.5)


def test_sinusoids_by_hand():
    table = lm.sinusoids(5, 4)
    assert table[0].tolist() == [0, 1, 0, 1]
    assert table[3].tolist() == pytest.approx([math.sin(3), math.cos(3), math.sin(0.03), math.cos(0.03)])


def test_texts_are_coded_by_frequency_and_cut_into_windows():
    letters = lm.alphabet(["aab", "abc"], size=3)
    assert letters == "ab" and lm.encode("abz", letters).tolist() == [0, 1, 2]
    assert lm.windows(torch.arange(7), 2, 2).tolist() == [[0, 1, 2], [2, 3, 4], [4, 5, 6]]
    batch = lm.batches(torch.arange(9), n=3, batch=2)(torch.Generator().manual_seed(0))["ids"]
    assert batch.shape == (2, 4) and (batch.diff(dim=1) == 1).all()


def test_cut_readings_are_those_of_texts_that_begin_anew():
    model = lm.TinyLanguageModel("sinusoidal").eval()
    found = lm.cut_losses(model, IDS, context=6)
    for place in (6, 20, 39):
        alone = model(ids=IDS[:, place - 5 : place + 2])[:, -1]
        torch.testing.assert_close(found[:, place], alone)
    torch.testing.assert_close(found[:, :6], lm.position_losses(model, IDS)[:, :6])
    torch.testing.assert_close(lm.by_blocks(torch.arange(10.0)[None], 4), torch.tensor([1.5, 5.5, 8.5]))


def test_the_shift_is_for_training_alone():
    model = lm.TinyLanguageModel("sinusoidal, shifted").train()
    torch.manual_seed(0)
    assert not torch.equal(model(ids=IDS), model(ids=IDS))
    assert torch.equal(lm.position_losses(model, IDS), lm.position_losses(model, IDS))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: lm.TinyLanguageModel("learned"), "positions must be one of"),
        (lambda: lm.TinyLanguageModel("none", width=30), "heads of one even width"),
        (lambda: lm.windows(torch.arange(5), 5, 1), "does not fit into 5"),
    ],
)
def test_what_does_not_fit_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_the_sweep_of_lengths_is_about_these_models_and_this_text():
    stored = sweep("length_extrapolation")
    made, runs = stored["made"], stored["runs"]
    assert made["steps"] == length_sweep.STEPS and made["seeds"] == list(length_sweep.SEEDS)
    assert {(r["positions"], r["seed"]) for r in runs} == {(p, s) for p in lm.POSITIONS for s in length_sweep.SEEDS}
    assert all(len(row[name]) == 32 for row in runs for name in ("whole", "window", "cut"))
    train, test = lm.corpus()
    assert made["characters"] == [len(train), len(test)]
    assert made["parameters"] == sum(p.numel() for p in lm.TinyLanguageModel("none").parameters())


def test_a_run_of_the_sweep_comes_out_again_in_short():
    """100 steps: the first position block is learned to the same loss twice, and the sweep's loss is lower."""
    train, test = lm.corpus()
    ids = lm.windows(test, 64, 512)
    found = []
    for _ in range(2):
        model = lm.TinyLanguageModel("ALiBi", seed=0)
        fit(model, lm.batches(train), lm.mean_loss, steps=100, learning_rate=3e-3, warmup=50)
        found.append(float(lm.position_losses(model, ids).mean()))
    stored = [row for row in sweep("length_extrapolation")["runs"] if row["positions"] == "ALiBi"]
    assert found[0] == pytest.approx(found[1], abs=1e-4) and found[0] < 3.2
    assert all(row["whole"][3] < found[0] - 0.2 for row in stored)


def test_a_table_of_bigrams_by_hand():
    train, test = torch.tensor([0, 1, 0, 1, 0, 0]), torch.tensor([0, 1, 0])
    assert lm.bigram_loss(train, test, size=2, add=0) == pytest.approx(-(math.log(2 / 3) + math.log(1)) / 2)


def test_the_sweep_of_costs_is_about_these_methods():
    stored = sweep("attention_cost")
    rows = {(row["method"], row["n"]): row for row in stored["methods"]}
    assert set(rows) == {(name, n) for name in cost.METHODS for n in cost_sweep.LENGTHS}
    made = stored["made"]
    assert (made["reach"], made["rank"], made["features"]) == (cost.REACH, cost.RANK, cost.FEATURES)
    inputs = cost.draw(512)
    for name, call in cost.methods(512).items():
        assert cost.counted_flops(lambda f=call: f(*inputs)) == rows[name, 512]["flops"]
        if not name.startswith("SDPA"):  # its buffers depend on the number of threads
            assert cost.peak_bytes(lambda f=call: f(*inputs)) == pytest.approx(rows[name, 512]["bytes"], rel=0.02)
    assert [row["n"] for row in stored["layer"]] == list(cost_sweep.LAYER_LENGTHS)
    grown = {(row["method"], row["n"]): row["megabytes"] for row in stored["resident"]}
    for n in (4096, 8192):  # counted bytes and resident memory of a child tell the same story
        assert grown["eager", n] == pytest.approx(rows["eager", n]["bytes"] / 1e6, rel=0.15)
        assert grown["SDPA", n] < 0.05 * grown["eager", n]
