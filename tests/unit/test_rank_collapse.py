"""MiniLM taken apart, its paths, attention alone to any precision, stacks without training, and the stored sweep."""

from __future__ import annotations

import math
from itertools import combinations, product

import pytest
import torch
from torch.nn.functional import gelu, layer_norm

from tools.sweeps.rank_collapse import STACKS, edits
from utils import low_rank, measures
from utils import rank_collapse as rc
from utils.models import MINILM_SHA256, load
from utils.pure_attention import bound, log_distance, pure_attention
from utils.random_stacks import random_stack, shared_stack, simplex_states
from utils.sweeps import sweep

ALONE = {"skip": False, "mlp": False, "norm": False}


def noise(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.fixture(scope="module")
def minilm():
    return load("minilm", dtype=torch.float64)


@pytest.fixture(scope="module")
def ids(minilm):
    return low_rank.token_windows(minilm.tokenizer, 24, 3)


@pytest.fixture(scope="module")
def stack():
    """Three layers of width 8 with two heads, with biases and LayerNorms that do something."""
    model = random_stack(3, width=8, heads=2, seed=1)
    for position, parameter in enumerate(model.encoder.parameters()):
        if parameter.ndim == 1:
            parameter.data = parameter.data + 0.3 * noise(*parameter.shape, seed=position)
    return model


def by_hand(model, x, skip, mlp, norm):
    """One text, layer by layer and head by head, written out from the matrices."""
    for layer in model.encoder.layer:
        own, after = layer.attention.self, layer.attention.output
        q, k, v = (x @ part.weight.T + part.bias for part in (own.query, own.key, own.value))
        heads = []
        for h in range(2):
            part = slice(4 * h, 4 * h + 4)
            heads.append((q[:, part] @ k[:, part].T / 2).softmax(-1) @ v[:, part])
        y = torch.cat(heads, dim=-1) @ after.dense.weight.T + after.dense.bias
        x = x + y if skip else y
        x = layer_norm(x, (8,), after.LayerNorm.weight, after.LayerNorm.bias, 1e-12) if norm else x
        if mlp:
            up, down = layer.intermediate.dense, layer.output
            y = gelu(x @ up.weight.T + up.bias) @ down.dense.weight.T + down.dense.bias
            x = x + y if skip else y
            x = layer_norm(x, (8,), down.LayerNorm.weight, down.LayerNorm.bias, 1e-12) if norm else x
    return x


@pytest.mark.parametrize(("skip", "mlp", "norm"), list(product([True, False], repeat=3)))
def test_every_combination_is_what_the_matrices_say(stack, skip, mlp, norm):
    x = noise(2, 5, 8)
    found = rc.states(stack, x, skip=skip, mlp=mlp, norm=norm)
    assert found.shape == (4, 2, 5, 8) and torch.equal(found[0], x)
    for text in (0, 1):
        assert torch.allclose(found[-1, text], by_hand(stack, x[text], skip, mlp, norm), atol=1e-10)


@torch.no_grad()
def test_with_everything_on_the_states_are_the_models_own(minilm, ids):
    found = rc.states(minilm.model, rc.embedded(minilm.model, ids))
    own = minilm.model(input_ids=ids, output_hidden_states=True).hidden_states
    assert torch.allclose(found, torch.stack(own), atol=1e-10)


def test_layers_run_in_the_order_asked_for(stack):
    x = noise(1, 5, 8)
    whole = rc.states(stack, x)
    assert torch.allclose(rc.states(stack, whole[1], layers=[1, 2])[1:], whole[2:], atol=1e-12)
    assert rc.states(stack, x, layers=[0] * 7).shape[0] == 8
    with pytest.raises(ValueError, match="layers 0 to 2"):
        rc.states(stack, x, layers=[3])


@pytest.mark.parametrize("wrong", [noise(5, 8), noise(1, 5, 7), [[1.0]]])
def test_states_that_do_not_fit_are_refused(stack, wrong):
    with pytest.raises(ValueError, match="states \\(texts, n, 8\\) are needed"):
        rc.states(stack, wrong)


def test_another_kind_of_model_is_refused(make):
    with pytest.raises(TypeError, match="has no layers as BERT has them"):
        rc.states(make("gpt2").model, noise(1, 5, 8))


def test_a_mask_on_weights_is_minus_infinity_on_scores():
    scores, allowed = noise(1, 2, 6, 6), torch.ones(6, 6).tril().bool()
    expected = scores.masked_fill(~allowed, -torch.inf).softmax(-1)
    assert torch.allclose(rc.masked(allowed)(0, scores.softmax(-1)), expected, atol=1e-14)
    without = rc.masked(torch.tensor([0, 1, 1, 1, 1, 1]))(0, scores.softmax(-1))
    assert without[..., 0].abs().max() == 0 and torch.allclose(
        without.sum(-1), torch.ones(1, 2, 6, dtype=torch.float64)
    )
    with pytest.raises(ValueError, match="leaves every query a key"):
        rc.masked(torch.eye(3).roll(1, 0).tril())


@pytest.mark.parametrize("norm", [False, True])
def test_paths_add_up_to_the_output(stack, norm):
    x = noise(2, 5, 8)
    parts, constant = rc.paths(stack, x, norm=norm)
    output = rc.states(stack, x, mlp=False, norm=norm)[-1]
    assert parts.shape == (4, 2, 5, 8)
    assert torch.allclose(parts.sum(0) + constant, output, atol=1e-10)
    shares = torch.cat([rc.share(parts, output), rc.share(constant, output)[None]])
    assert torch.allclose(shares.sum(0), torch.ones(2, dtype=torch.float64))


def test_each_length_is_the_sum_over_its_choices_of_layers():
    model, x = random_stack(3, width=8, heads=2, seed=2), noise(1, 5, 8)
    states = rc.states(model, x, mlp=False, norm=False)
    linear = []  # each layer as one matrix on the flattened states, its weights held
    for layer, read in zip(model.encoder.layer, states[:-1], strict=True):
        weights, own = rc.maps(layer, read)[0], layer.attention
        total = 0
        for h in range(2):
            part = slice(4 * h, 4 * h + 4)
            moved = own.self.value.weight[part].T @ own.output.dense.weight[:, part].T
            total = total + torch.kron(weights[h].contiguous(), moved.T.contiguous())
        linear.append(total)
    for length in range(4):
        expected = 0
        for chosen in combinations(range(3), length):
            each = x.flatten()
            for index in chosen:
                each = linear[index] @ each
            expected = expected + each
        assert torch.allclose(rc.paths(model, x).by_length[length].reshape(-1), expected, atol=1e-10)


def test_attention_alone_agrees_with_the_states_above_rounding(stack):
    x = noise(2, 5, 8)
    common, own = pure_attention(stack, x)
    assert torch.allclose(common + own, rc.states(stack, x, **ALONE), atol=1e-12)
    assert own.sum(-2).abs().max() < 1e-12


def test_far_below_rounding_attention_alone_cubes():
    model, x = random_stack(2, width=8, heads=2, seed=3), noise(1, 5, 8)
    mean = x.mean(-2, keepdim=True)
    found = [pure_attention(model, mean + factor * (x - mean))[1] for factor in (1e-3, 1e-5)]
    fell = log_distance(found[0]) - log_distance(found[1])
    assert fell.flatten().tolist() == pytest.approx([2, 6, 18], abs=0.01)
    assert log_distance(found[1])[-1] < -40


def test_saturated_scores_agree_with_the_plain_formula():
    model, x = random_stack(1, width=8, heads=2, scores=400, seed=4), noise(1, 5, 8)
    common, own = pure_attention(model, x)
    assert torch.allclose((common + own)[1], rc.states(model, x, **ALONE)[1], atol=1e-10)


def test_log_distance_sees_what_squares_cannot():
    assert float(log_distance(torch.full((1, 4, 4), 1e-200, dtype=torch.float64))) == pytest.approx(
        -200 + math.log10(4)
    )
    assert float(log_distance(torch.zeros(4, 4, dtype=torch.float64))) == -math.inf


@pytest.mark.parametrize("factor", [1e-3, 0.1, 0.5, 1.0])
def test_the_bound_holds(factor):
    for seed in range(4):
        model, x = random_stack(1, width=8, heads=2, seed=seed), noise(1, 12, 8, seed=seed)
        own = pure_attention(model, x.mean(-2, keepdim=True) + factor * rc.apart(x))[1].norm(dim=-1).amax((1, 2))
        assert float(own[1]) <= bound(model.encoder.layer[0], float(own[0]))


def test_the_bound_is_the_sum_of_products_of_norms():
    layer = random_stack(1, width=8, heads=2).encoder.layer[0]
    total, own = 0.0, layer.attention.self
    for h in range(2):
        part = slice(4 * h, 4 * h + 4)
        scores = torch.linalg.matrix_norm(own.query.weight[part].T @ own.key.weight[part], 2)
        moved = torch.linalg.matrix_norm(layer.attention.output.dense.weight[:, part] @ own.value.weight[part], 2)
        total += 2 * float(moved) * 0.1 * math.expm1(2 * 0.01 * float(scores) / 2)
    assert bound(layer, 0.1) == pytest.approx(total, rel=1e-9)
    assert bound(layer, 1e6) == math.inf


def test_a_change_spreads_to_nobody_without_attention_and_is_refused_if_it_is_two(minilm, ids):
    changed = ids.clone()
    changed[:, 7] = ids[:, 8]
    changed[:, 7] += changed[:, 7] == ids[:, 7]
    own_only = rc.spread(minilm.model, ids, changed, edit=lambda _, w: torch.eye(24, dtype=w.dtype).expand_as(w))
    assert own_only.abs().max() == 0
    usual = rc.spread(minilm.model, ids, changed)
    assert usual.shape == (7, 3) and usual[0].max() == 0 and usual[1:].min() > 0
    with pytest.raises(ValueError, match="exactly one place"):
        rc.spread(minilm.model, ids, ids)


@pytest.mark.parametrize("groups", [2, 4, 16])
def test_the_built_stack_keeps_its_simplex(groups):
    corners = simplex_states(16, groups, 24)
    assert int(measures.numerical_rank(corners[0])) == groups - 1
    assert corners.mean(-1).abs().max() < 1e-12 and corners.mean(-2).abs().max() < 1e-12
    model = shared_stack(2, torch.eye(24))
    assert torch.allclose(rc.states(model, corners, skip=False, mlp=False)[-1], corners, atol=1e-9)
    smaller = rc.states(model, corners, **ALONE)[-1]
    cosine = torch.cosine_similarity(smaller, corners, dim=-1)
    assert cosine.min() > 1 - 1e-9 and (smaller.norm(dim=-1) < corners.norm(dim=-1)).all()


@pytest.mark.parametrize("wrong", [{"groups": 1}, {"groups": 5}, {"groups": 16, "width": 16}])
def test_groups_that_do_not_go_are_refused(wrong):
    with pytest.raises(ValueError, match="do not go"):
        simplex_states(**{"n": 16, "width": 24} | wrong)


def test_random_stacks_are_drawn_as_they_say():
    model = random_stack(2, width=64, heads=4, gain=0.5, scores=3, branch=0.1)
    layer = model.encoder.layer[1]
    for module, size in ((layer.attention.self.value, 1), (layer.attention.self.query, 3), (layer.output.dense, 0.1)):
        assert float(module.weight.std()) == pytest.approx(0.5 * size / module.in_features**0.5, rel=0.05)
        assert module.bias.abs().max() == 0
    again = random_stack(2, width=64, heads=4, gain=0.5, scores=3, branch=0.1)
    assert torch.equal(again.encoder.layer[1].output.dense.weight, layer.output.dense.weight)
    for wrong, message in (({"layers": 0}, "whole number"), ({"layers": 1, "width": 10, "heads": 4}, "divisor")):
        with pytest.raises(ValueError, match=message):
            random_stack(**wrong)
    with pytest.raises(ValueError, match="square"):
        shared_stack(1, torch.ones(2, 3))


def test_the_sweep_is_about_minilm_and_agrees_at_spot_points(minilm):
    stored = sweep("rank_collapse")
    made = stored["made"]
    assert made["model"] == MINILM_SHA256 and len(stored["combinations"]) == 4 * 8
    ids = low_rank.token_windows(minilm.tokenizer, made["n"], made["texts"])
    hidden = rc.embedded(minilm.model, ids[:2])
    row = next(r for r in stored["combinations"] if (r["weights"], r["skip"], r["mlp"]) == ("trained", False, False))
    found = measures.rank_residual(rc.states(minilm.model, hidden, skip=False, mlp=False, norm=row["norm"]))
    for layer in range(4):
        assert row["least"][layer] * 0.99 <= found[layer].min() <= found[layer].max() <= row["greatest"][layer] * 1.01
    row = next(r for r in stored["deep"] if r["stack"] == "gain 1" and r["seed"] == 3)
    stack = random_stack(48, **STACKS["gain 1"], seed=3)
    parts = {name: row[name] for name in ("skip", "mlp", "norm")}
    found = measures.rank_residual(rc.states(stack, measures.null_states(64, 64, samples=3, seed=3), **parts)).mean(1)
    assert found[row["depths"]].tolist() == pytest.approx(row["residual"], rel=0.01)
    assert [r["edit"] for r in stored["sinks"] if r["weights"] == "trained"] == list(edits(8))
