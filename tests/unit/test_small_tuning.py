"""Solved heads, LoRA, random projections and transplanted bodies: what is trained, what stays, what starts where."""

from __future__ import annotations

import pytest
import torch
from sklearn.linear_model import LogisticRegression

from utils import adapters
from utils import small_tuning as tuning
from utils.models import load
from utils.topics import topics


@pytest.fixture(scope="module")
def task():
    return topics().sample(10)


def reader(parts=tuple(tuning.PARTS), seed=0):
    return tuning.Reader(tuning.transplanted(parts, seed), 5)


def test_every_weight_lies_in_one_group_and_the_groups_have_the_sizes_of_minilm():
    sizes = dict.fromkeys(tuning.PARTS, 0)
    for name, parameter in tuning.transplanted(()).named_parameters():
        sizes[tuning.part_of(name)] += parameter.numel()
    square = 6 * (384 * 384 + 384)
    assert sizes["query"] == sizes["key"] == sizes["value"] == sizes["joined"] == square
    assert sizes["LayerNorm"] == 13 * 2 * 384 and sizes["words"] == 30522 * 384
    assert sizes["feed-forward"] == 6 * (2 * 384 * 1536 + 384 + 1536)


def test_a_transplant_holds_the_trained_weights_of_its_groups_and_no_others():
    trained = dict(load("minilm").model.named_parameters())
    for name, own in tuning.transplanted(("key", "LayerNorm"), seed=1).named_parameters():
        if tuning.part_of(name) in ("key", "LayerNorm"):
            assert torch.equal(own, trained[name]), name
        elif own.ndim == 2:
            assert not torch.equal(own, trained[name]), name
            assert float(own.detach().std()) == pytest.approx(float(trained[name].detach().std()), rel=0.1), name


def test_a_whole_transplant_is_minilm(task):
    model = load("minilm").model
    with torch.no_grad():
        states = model(input_ids=task.ids[:4], attention_mask=task.mask[:4]).last_hidden_state
        mask = task.mask[:4, :, None]
        mean = (states * mask).sum(1) / mask.sum(1)
        found = reader().features(task.ids[:4], task.mask[:4])
    assert torch.allclose(found, torch.nn.functional.layer_norm(mean, (384,)), atol=1e-4)


def test_an_unknown_group_is_named():
    with pytest.raises(ValueError, match="got 'mlp'"):
        tuning.transplanted(("mlp",))


def test_lora_starts_at_the_model_and_trains_the_product_alone(task):
    net = reader()
    tuning.solve_head(net, task)
    with torch.no_grad():
        before = net(ids=task.ids[:6], mask=task.mask[:6])
        count = adapters.add_lora(net, rank=3)
        assert torch.allclose(net(ids=task.ids[:6], mask=task.mask[:6]), before, atol=1e-5)
    assert count == 6 * 2 * 2 * 3 * 384 + 5 * 385
    kept = {name: p.detach().clone() for name, p in net.named_parameters()}
    tuning.tune(net, task, learning_rate=5e-2, steps=3)
    moved = {name for name, p in net.named_parameters() if not torch.equal(p, kept[name])}
    assert all(name.endswith((".a", ".b")) or name.startswith("output.") for name in moved)


def test_lora_equals_the_matrix_with_the_product_added():
    generator = torch.Generator().manual_seed(0)
    linear = torch.nn.Linear(6, 4)
    layer = adapters.LoRA(linear, 2, generator)
    with torch.no_grad():
        layer.b.copy_(torch.randn(4, 2, generator=generator))
        x = torch.randn(3, 6, generator=generator)
        assert torch.allclose(layer(x), x @ (linear.weight + layer.b @ layer.a).T + linear.bias, atol=1e-6)


@pytest.mark.parametrize("rank", [0, 7, 1.5, True])
def test_a_rank_that_does_not_fit_is_refused(rank):
    with pytest.raises(ValueError, match="rank must be a whole number from 1 to 4"):
        adapters.LoRA(torch.nn.Linear(6, 4), rank, torch.Generator())


def test_a_projection_moves_every_weight_by_one_number_with_a_sign(task):
    net = adapters.Projected(reader(), 7)
    assert tuning.trained_numbers(net) == 7
    index, sign = net.follows["output.weight"]
    assert set(index.tolist()) == set(range(7)) and set(sign.tolist()) == {-1.0, 1.0}
    assert not any("word_embeddings" in name for name in net.follows)
    with torch.no_grad():
        plain = net(ids=task.ids[:3], mask=task.mask[:3])
        assert torch.allclose(plain, net.net(task.ids[:3], task.mask[:3]), atol=1e-5)  # z = 0
        net.z[2] = 0.01
        changed = net(ids=task.ids[:3], mask=task.mask[:3])
        for name, parameter in net.net.named_parameters():
            if name in net.follows:
                index, sign = net.follows[name]
                parameter += (0.01 * sign * (index == 2)).view_as(parameter)
        assert torch.allclose(changed, net.net(task.ids[:3], task.mask[:3]), atol=1e-4)


def test_tuning_never_ends_below_its_start_on_the_validation_sentences(task):
    net = reader()
    tuning.solve_head(net, task)
    tuning.train_parts(net, ())
    found = tuning.tune(net, task, learning_rate=3.0, steps=2)  # far too large
    assert found["validation"] >= found["curve"][0]
    assert tuning.accuracy(net, task, task.validation) == pytest.approx(found["validation"])


def test_a_solved_head_gives_the_accuracy_of_the_regression(task):
    net = reader()
    test = tuning.solve_head(net, task)
    assert tuning.accuracy(net, task, task.test) == pytest.approx(test, abs=0.011)


def test_features_that_are_known_give_the_same_head(task):
    first, second = reader(), reader()
    tuning.solve_head(first, task)
    tuning.solve_head(second, task, tuning.sentence_features(first, task))
    assert torch.equal(first.output.weight, second.output.weight) and first.output.weight.abs().max() > 0


@pytest.mark.parametrize(("kind", "seed"), [("all", 2), ("nothing", 0), ("words, Q, K, V", 2)])
def test_features_of_another_processor_choose_the_same_penalty(kind, seed):
    few = topics().sample(10, seed)
    features = tuning.sentence_features(reader(tuning.TRANSPLANTS[kind]), few)
    plain = tuning.solved(features, few)
    generator = torch.Generator().manual_seed(0)
    for _ in range(6):
        moved = features * (1 + 1e-5 * torch.randn(features.shape, generator=generator))
        found = tuning.solved(moved, few)
        assert found["inverse_penalty"] == plain["inverse_penalty"]
        assert found["test"] == pytest.approx(plain["test"], abs=1.01 / len(few.test))


def test_the_penalty_is_that_of_the_smallest_log_loss_in_validation(task):
    features = tuning.sentence_features(reader(), task)
    x, y = features.double(), task.labels
    losses = {}
    for c in tuning.INVERSE_PENALTIES:
        model = LogisticRegression(C=c, tol=1e-8, max_iter=5000).fit(x[task.train].numpy(), y[task.train].numpy())
        shares = torch.tensor(model.predict_log_proba(x[task.validation].numpy()))
        losses[c] = float(torch.nn.functional.nll_loss(shares, y[task.validation]))
    assert tuning.solved(features, task)["inverse_penalty"] == min(losses, key=losses.get)
