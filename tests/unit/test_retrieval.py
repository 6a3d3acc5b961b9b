"""Retrieval tasks and the small memories that learn them."""

from __future__ import annotations

import pytest
import torch

from utils import fast_weights as fw
from utils import retrieval
from utils.training import fit


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_values_are_signs_of_length_one():
    values = retrieval.random_values(5, d_value=16, batch=3)(generator())["values"]
    assert values.shape == (3, 5, 16) and torch.equal(values.abs(), torch.full((3, 5, 16), 0.25))


@pytest.mark.parametrize("feature", [*retrieval.FEATURES, "softmax"])
def test_the_exact_error_is_the_mean_over_many_draws(feature):
    model = retrieval.KeyTable(12, 8, feature, seed=3)
    batch = retrieval.random_values(12, batch=4000)(generator(1))
    with torch.no_grad():
        found = retrieval.retrieval_error(model(**batch), batch)
    assert float(found) == pytest.approx(retrieval.exact_error(model), rel=0.05)


@pytest.mark.parametrize("feature", ["elu + 1", "DPFP-1", "softmax"])
def test_weights_of_positive_features_sum_to_one(feature):
    weights = retrieval.KeyTable(6, 8, feature).weights()
    torch.testing.assert_close(weights.sum(1), torch.ones(6), rtol=1e-4, atol=1e-4)


def test_training_approaches_the_limit_of_the_width():
    model = retrieval.KeyTable(16, 4, "identity")
    fit(
        model,
        retrieval.random_values(16),
        retrieval.retrieval_error,
        steps=400,
        learning_rate=0.02,
    )
    assert 1 - 4 / 16 - 1e-4 < retrieval.exact_error(model) < 1 - 4 / 16 + 0.03


def test_labels_are_the_value_written_last():
    batch = retrieval.reassigned(keys=3, values=5, writes=8, batch=200)(generator())
    counts = 0
    for keys, values, query, label in zip(
        *(batch[k].tolist() for k in ("keys", "values", "query", "labels")), strict=True
    ):
        written = [v for k, v in zip(keys, values, strict=True) if k == query]
        counts += len(written) > 1
        assert label == written[-1]
    assert counts > 100


def test_the_ceiling_by_hand_and_by_trying():
    def one(keys, values):
        return {"keys": torch.tensor([keys]), "values": torch.tensor([values]), "query": torch.tensor([1])}

    assert retrieval.blind_ceiling(one([1, 1, 0, 1, 1], [2, 3, 2, 3, 4]), values=5) == 0.5
    assert retrieval.blind_ceiling(one([0, 1], [3, 3]), values=5) == 1
    batch = retrieval.reassigned(batch=20000)(generator(2))
    same = batch["keys"] == batch["query"][:, None]
    votes = torch.zeros(20000, 20).scatter_add_(1, batch["values"], same.float())
    right = (votes.argmax(1) == batch["labels"]).float().mean()
    assert float(right) == pytest.approx(retrieval.blind_ceiling(batch), abs=0.015)


@pytest.mark.parametrize("rule", retrieval.RULES)
def test_a_memory_takes_a_batch_and_knows_order_only_where_it_should(rule):
    model = retrieval.Memory(rule, seed=1)
    torch.nn.init.normal_(model.places, generator=generator(4))
    batch = retrieval.reassigned(batch=6)(generator())
    order = torch.randperm(40, generator=generator(5))
    shuffled = batch | {"keys": batch["keys"][:, order], "values": batch["values"][:, order]}
    with torch.no_grad():
        logits, again = model(**batch), model(**shuffled)
    assert logits.shape == (6, 20)
    blind = torch.allclose(logits, again, atol=1e-5)
    assert blind == (rule in ("sum", "softmax"))


def test_the_delta_memory_equals_a_loop():
    model = retrieval.Memory("delta", seed=2)
    batch = retrieval.reassigned(batch=1, writes=40)(generator(3))
    with torch.no_grad():
        pairs = torch.cat([model.symbol(batch["keys"]), model.content(batch["values"])], dim=-1)[0]
        memory = torch.zeros(32, 32)
        for pair in pairs:
            key, beta = model.key(pair).softmax(-1), model.strength(pair).sigmoid()
            memory = memory + beta * torch.outer(model.value(pair) - memory @ key, key)
        expected = model.output(memory @ model.query(model.symbol(batch["query"][0])).softmax(-1))
        torch.testing.assert_close(model(**batch)[0], expected, rtol=1e-4, atol=1e-5)


def test_decay_weighs_a_write_by_its_age():
    model = retrieval.Memory("decay", seed=2)
    batch = retrieval.reassigned(batch=1)(generator(3))
    with torch.no_grad():
        model.factor.fill_(20.0)  # nothing fades: the sum rule
        plain = retrieval.Memory("sum", seed=2)
        torch.testing.assert_close(model(**batch), plain(**batch))
        model.factor.fill_(-20.0)  # all but the last write is gone
        alone = model.output(
            model.value(torch.cat([model.symbol(batch["keys"]), model.content(batch["values"])], -1))[:, -1]
        )
        torch.testing.assert_close(model(**batch), alone, rtol=1e-4, atol=1e-4)


def test_accuracy_counts_the_likeliest():
    class Fixed(torch.nn.Module):
        def forward(self, labels):
            return torch.eye(3)[[0, 1, 1]]

    assert retrieval.accuracy(Fixed(), {"labels": torch.tensor([0, 1, 2])}) == pytest.approx(2 / 3)


def test_unknown_names_are_refused():
    with pytest.raises(ValueError, match="one of identity"):
        retrieval.KeyTable(4, 4, "relu")
    with pytest.raises(ValueError, match="one of sum"):
        retrieval.Memory("hebb")


def test_features_of_the_book_are_those_of_fast_weights():
    x = torch.randn(3, 8, generator=generator())
    assert torch.equal(retrieval.FEATURES["DPFP-2"](x), fw.dpfp(x, 2))
