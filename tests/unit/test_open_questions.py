"""What chapter 11 measures with: matching, information, explanation; and that its sweep can be made again."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
import torch

from tools.sweeps.open_questions import NAME, PARTS, VARIANTS
from utils import explanation, information, matching
from utils import induction as ind
from utils.heads import Head, gated
from utils.removal import losses_without
from utils.routing import rank_correlation
from utils.sweeps import sweep


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def maps(seed: int, texts: int = 4) -> list[torch.Tensor]:
    return [(3 * torch.randn(2, 3, 7, 7, generator=generator(seed + i))).softmax(-1) for i in range(texts)]


def test_renumbered_heads_are_found_again_and_the_index_is_worth_nothing():
    one = maps(0)
    order = torch.tensor([4, 2, 0, 5, 1, 3])
    other = [each.flatten(0, 1)[order].unflatten(0, (2, 3)) for each in one]
    found = matching.recurrence(one, other)
    assert found["matched"] == pytest.approx(1) and found["in the same layer"] == pytest.approx(4 / 6)
    assert found["same index"] < 0.3 and found["with the same index"] == 0 and abs(found["matched, permuted"]) < 0.3


def test_unrelated_heads_match_by_choice_only_where_they_were_chosen():
    found = [matching.recurrence(maps(10 * seed), maps(500 + 10 * seed)) for seed in range(10)]
    assert abs(np.mean([each["matched"] for each in found])) < 0.05


def test_models_of_different_sizes_are_refused():
    with pytest.raises(ValueError, match="same layers and heads"):
        matching.recurrence(maps(0), [each[:1] for each in maps(1)])
    with pytest.raises(ValueError, match="two or more texts"):
        matching.recurrence(maps(0, texts=1), maps(1, texts=1))


def test_groups_that_are_alike_stand_out_and_dealt_groups_do_not():
    groups = np.repeat(range(5), 4)
    noise = np.random.default_rng(1).normal(size=(20, 20))
    found = matching.within_groups((groups[:, None] == groups) + (noise + noise.T) / 10, groups)
    assert found["same group"] == pytest.approx(1, abs=0.1) and found["dealt anew"] == pytest.approx(3 / 19, abs=0.05)
    assert found["spread"] < 0.1
    with pytest.raises(ValueError, match="two items or more"):
        matching.within_groups(noise, np.arange(20))


def test_similarities_have_the_means_of_the_table():
    one, other = maps(0), maps(40)
    table, parts = matching.recurrence(one, other), matching.similarities(one, other)
    assert {name: np.mean(each) for name, each in parts.items()} == pytest.approx({k: table[k] for k in parts})
    assert [len(each) for each in parts.values()] == [6, 6, 18]


def test_maps_of_a_translator_are_those_of_its_encoder(make):
    family = make("translator")
    (found,) = matching.maps_of(family.model, family.tokenizer, [("the cat sat", "a dog")])
    assert found.shape[:2] == (3, 4) and torch.allclose(found.sum(-1), torch.ones(found.shape[:3]))


def test_losses_without_heads_are_those_of_gates(make):
    family = make("translator")
    model, tokenizer = family.model, family.tokenizer
    pairs = [("the cat sat on the mat", "a dog ran"), ("a dog", "the cat")]
    order = [Head(layer, head, "encoder") for layer in range(3) for head in range(4)]
    found = losses_without(model, tokenizer, pairs, order, out=5, draws=2)
    source, target = (tokenizer(list(side), padding=True, return_tensors="pt") for side in zip(*pairs, strict=True))
    labels = torch.where(target["attention_mask"].bool(), target["input_ids"], -100)
    gates = torch.ones(3, 4)
    gates.flatten()[:5] = 0
    with torch.no_grad(), gated(model, {"encoder": gates}):
        assert found["in this order"] == pytest.approx(float(model(**source, labels=labels).loss), abs=1e-5)
    assert len({round(each, 4) for each in found.values()}) == 5
    draws = [found["random, least"], found["random, greatest"]]
    assert found["at random"] == pytest.approx(sum(draws) / 2) and draws[0] < draws[1]
    with pytest.raises(ValueError, match="from 1 to 12"):
        losses_without(model, tokenizer, pairs, order, out=13)


def test_information_by_hand():
    one = torch.tensor([0, 0, 1, 1])
    assert information.entropy_of_labels(one) == pytest.approx(math.log(2))
    assert information.mutual_information(one, one) == pytest.approx(math.log(2))
    assert information.mutual_information(one, torch.tensor([7, 8, 7, 8])) == pytest.approx(0)
    other = torch.tensor([-3, -3, -3, 5])  # H = 0.5623, joint: ½, ¼, ¼
    expected = math.log(2) + 0.5623 - 1.0397
    assert information.mutual_information(one, other) == pytest.approx(expected, abs=1e-3)
    assert information.mutual_information(one, other, correction=True) == pytest.approx(
        expected + (1 + 1 - 2) / 8, abs=1e-3
    )


def test_the_bias_for_independent_labels_is_that_of_theory():
    labels = torch.randint(4, (2, 400), generator=generator(3))
    found = information.shuffled_information(*labels, draws=300)
    assert float(found.mean()) == pytest.approx(9 / 800, rel=0.15)


@pytest.mark.parametrize("labels", [torch.tensor([0.5]), [1, 2], torch.zeros(0, dtype=torch.long)])
def test_labels_that_are_none_are_refused(labels):
    with pytest.raises((TypeError, ValueError), match="labels|one"):
        information.mutual_information(labels, torch.tensor([1]))


def test_information_by_size_takes_the_bias_off():
    labels = torch.randint(6, (2, 2000), generator=generator(8))
    found = information.information_by_size([tuple(labels)], [60, 2000], draws=40)
    assert found.loc[60, "plug-in"] > 5 * found.loc[2000, "plug-in"]
    assert abs(found["difference"]).max() < 0.1 and abs(found.loc[2000, "difference"]) < 0.01


@pytest.fixture
def encoder(make):
    return make("bert").model


def ids(texts: int = 2, n: int = 6) -> torch.Tensor:
    return torch.randint(5, 30, (texts, n), generator=generator(4))


def test_hiding_a_token_is_the_same_as_leaving_it_out_where_positions_do_not_matter(encoder):
    text = ids(1)
    with torch.no_grad():
        encoder.embeddings.position_embeddings.weight.zero_()
        found = explanation.removal_effects(encoder, text, "hide")[0]
        whole = explanation.embeddings(encoder, text)
        for at in range(1, 5):
            left = torch.cat([text[:, :at], text[:, at + 1 :]], dim=1)
            expected = 1 - torch.cosine_similarity(explanation.embeddings(encoder, left), whole)
            assert float(found[at - 1]) == pytest.approx(float(expected), abs=1e-5)


def test_replacing_a_token_by_itself_has_no_effect(encoder):
    text = ids(1)
    text[0, 3] = 9
    found = explanation.removal_effects(encoder, text, "replace", mask_id=9)[0]
    assert abs(float(found[2])) < 1e-6 and found[[0, 1, 3]].min() > 1e-6


def test_gradients_follow_finite_differences(encoder):
    """Σ over tokens of the squared sizes is E‖Jᵀz‖²: compare with the squared movement along random directions."""
    text = ids(1)
    sizes = explanation.gradient_sizes(encoder, text, projections=400)
    words = encoder.get_input_embeddings()(text).detach()

    def direction(inputs):
        with torch.no_grad():
            states = encoder(inputs_embeds=inputs, attention_mask=torch.ones_like(text)).last_hidden_state
        return torch.nn.functional.normalize(states.mean(1), dim=-1)

    step, moved = 1e-3, []
    for seed in range(400):
        noise = torch.zeros_like(words)
        noise[:, 2] = torch.randn(words.shape[-1], generator=generator(seed))
        moved.append(
            (direction(words + step * noise) - direction(words - step * noise)).square().sum() / (2 * step) ** 2
        )
    assert float(torch.stack(moved).mean().sqrt()) == pytest.approx(float(sizes[0, 1]), rel=0.15)


def test_attention_received_is_a_mean_of_columns_and_rollout_is_the_package_s(encoder):
    found = explanation.attention_received(encoder, ids())
    assert {tuple(each.shape) for each in found.values()} == {(2, 4)}
    encoder.set_attn_implementation("eager")
    weights = encoder(input_ids=ids(), output_attentions=True).attentions
    column = torch.stack([each.mean((1, 2)) for each in weights]).mean(0)[:, 1:-1]
    torch.testing.assert_close(found["attention, all layers"], column, rtol=1e-4, atol=1e-6)


def test_predictions_and_agreement_go_together(encoder):
    text = ids(3)
    said = explanation.predictions(encoder, text, {int(text[0, 2]): 7})
    assert said["rarity of the token"][0, 1] == -7
    found = explanation.agreement(encoder, text, 9, {})
    effect = explanation.removal_effects(encoder, text, "replace", 9)
    torch.testing.assert_close(found["gradient"], rank_correlation(said["gradient"], effect))
    assert set(found) == set(said)


def test_all_directions_keep_everything_and_entropy_is_log_n_when_nothing_is_chosen(encoder):
    with torch.no_grad():
        found = explanation.restricted_cosines(encoder, ids(), 32)
        assert found.shape == (2, 3) and found["shared"].min() == pytest.approx(1, abs=1e-4)
        for layer in encoder.encoder.layer:
            layer.attention.self.query.weight.zero_()
            layer.attention.self.query.bias.zero_()
    assert explanation.mean_entropy(encoder, ids(n=6)) == pytest.approx(math.log(6), abs=1e-5)


def test_maps_taken_away_and_bad_input(encoder):
    assert explanation.without_its_maps(encoder, ids(), "uniform").shape == (2,)
    amounts = torch.rand(3, 9, generator=generator(5))
    dealt = explanation.shuffled(amounts)
    assert torch.equal(dealt.sort(-1).values, amounts.sort(-1).values) and not torch.equal(dealt, amounts)
    with pytest.raises(ValueError, match="permuted"):
        explanation.without_its_maps(encoder, ids(), "zero")
    with pytest.raises(ValueError, match="mask_id"):
        explanation.removal_effects(encoder, ids(), "replace")
    with pytest.raises(ValueError, match="whole numbers"):
        explanation.removal_effects(encoder, torch.rand(2, 6), "hide")


def test_the_sweep_has_all_its_runs():
    stored = sweep(NAME)
    assert {name: len(stored[name]) for name in PARTS} == {name: len(list(part())) for name, part in PARTS.items()}
    assert {row["variant"] for row in stored["variants"]} == set(VARIANTS)
    assert stored["made"]["script"] == f"python -m tools.sweeps.{NAME}"


def test_a_run_of_the_sweep_begins_again_as_it_was():
    row = sweep(NAME)["watched"][0]
    history, seen = ind.train(ind.TinyModel(seed=0), seed=0, steps=20)
    assert history.losses.tolist() == pytest.approx(row["losses"], abs=2e-3)
    assert seen[0].previous[0].tolist() == pytest.approx(row["curve"][0]["previous"], abs=2e-3)
    assert seen[2].loss == pytest.approx(row["curve"][2]["loss"], abs=5e-3)


def test_the_entropy_share_is_one_for_uniform_rows_and_nothing_for_one_key():
    assert matching.entropy_share(torch.full((2, 3, 5), 0.2)) == pytest.approx(1)
    assert matching.entropy_share(torch.eye(5)[None]) == 0
    assert matching.entropy_share(torch.tensor([[0.5, 0.5, 0, 0]])) == pytest.approx(0.5)
    with pytest.raises(ValueError, match="two keys or more"):
        matching.entropy_share(torch.ones(3, 1))


def shuffles(one, other, draws, source):
    orders = [torch.randperm(len(one), generator=source) for _ in range(draws)]
    return sum(information.mutual_information(one, other[order]) for order in orders) / draws


FOUND = information.mutual_information


@pytest.mark.parametrize(
    ("attempt", "fault"),
    [
        (lambda a, b, d, g: FOUND(a, b) - shuffles(a, b, d, g), ""),
        (lambda a, b, d, g: FOUND(a, b) - shuffles(b, a, d, g), ""),
        (lambda a, b, d, g: FOUND(a, b), "the bias is still in"),
        (lambda a, b, d, g: shuffles(a, b, d, g), "the shuffled mean alone"),
        (lambda a, b, d, g: shuffles(a, b, d, g) - FOUND(a, b), "signs"),
        (lambda a, b, d, g: abs(FOUND(a, b) - shuffles(a, b, d, g)), "no abs"),
        (lambda a, b, d, g: max(0, FOUND(a, b) - shuffles(a, b, d, g)), "no max"),
        (lambda a, b, d, g: FOUND(a, b) - shuffles(a, b, d, None), "the generator"),
        (lambda a, b, d, g: FOUND(a, b) - shuffles(a, b, d, generator(3)), "the generator"),
        (lambda a, b, d, g: FOUND(a, b) - shuffles(a, b, 1, g), "as many shuffles|off by|expected"),
        (lambda a, b, d, g: FOUND(a, b) - shuffles(a, b, 40, g), "as many shuffles"),
        (lambda a, b, d, g: FOUND(a, b) - shuffles(a, b, d, g) * d, "off by|signs"),
    ],
)
def test_the_check_of_an_excess_lets_through_what_is_right_and_names_what_is_wrong(attempt, fault):
    found = information.excess_fault(attempt)
    assert re.search(fault, found) if fault else not found
