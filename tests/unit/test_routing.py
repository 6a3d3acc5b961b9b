"""Flow that is measured: messages add up, a replaced token reaches what reads it, a patch stops where nothing reads."""

from __future__ import annotations

import pytest
import torch
from scipy.stats import spearmanr

from utils.architectures import attentions
from utils.attention import rollout
from utils.heads import ablated, heads_of
from utils.importance import contribution_norms
from utils.routing import (
    apart,
    layer_states,
    one_way,
    others,
    patching_effects,
    predictions,
    random_replacements,
    rank_correlation,
    replacement_effects,
    sink_rows,
)


@pytest.fixture
def batch(tiny_bert):
    return dict(tiny_bert.tokenizer("The cat sat on the mat.", return_tensors="pt"))


def test_messages_from_all_keys_add_up_to_what_the_attention_adds(tiny_bert, batch):
    for state, attention in zip(layer_states(tiny_bert.model, batch), attentions(tiny_bert.model), strict=True):
        messages = torch.einsum("bhij,bjhd,hdw->biw", state.weights, state.values, attention.output_blocks())
        assert torch.allclose(messages + attention.output.bias, state.added, atol=1e-5)
        mixed = torch.einsum("bhij,bjhd->bihd", state.weights, state.values)
        assert torch.allclose(mixed, state.outputs, atol=1e-5)


def test_layer_states_leave_no_hook_and_refuse_several_kinds(tiny_bert, batch, make):
    layer_states(tiny_bert.model, batch)
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in tiny_bert.model.modules())
    with pytest.raises(ValueError, match="encoders such as BERT"):
        layer_states(make("bart").model, batch)


def test_a_replacement_starts_at_its_own_position_and_spreads_by_attention_alone(tiny_bert, batch):
    model, ids = tiny_bert.model, batch["input_ids"][0]
    substitutes = ids.roll(3).repeat(2, 1)
    effects = replacement_effects(model, ids, substitutes)
    n = len(ids)
    assert effects.shape == (model.config.num_hidden_layers + 1, n, n)
    other = ~torch.eye(n, dtype=torch.bool)
    assert effects[0][other].max() == 0 and effects[1][other].max() > 0
    with ablated(model, heads_of(model)):
        assert replacement_effects(model, ids, substitutes)[-1][other].max() < 1e-6


def test_effects_equal_those_of_one_replacement_by_hand(tiny_bert, batch):
    model, ids = tiny_bert.model, batch["input_ids"][0]
    changed = ids.clone()
    changed[2] = ids[4]
    substitutes = ids.clone()
    substitutes[2] = ids[4]
    with torch.no_grad():
        before, after = (model(input_ids=each[None]).last_hidden_state[0] for each in (ids, changed))
    by_hand = (after - before).norm(dim=-1) / before.norm(dim=-1)
    assert torch.allclose(replacement_effects(model, ids, substitutes[None])[-1][:, 2], by_hand, atol=1e-5)


def test_a_patch_of_the_embeddings_is_a_replacement_and_one_at_the_end_stays(tiny_bert, batch):
    model, ids = tiny_bert.model, batch["input_ids"][0]
    other = ids.roll(2)
    effects = patching_effects(model, ids, other)
    assert torch.allclose(effects[0], replacement_effects(model, ids, other[None])[-1], atol=1e-5)
    assert effects[-1][~torch.eye(len(ids), dtype=torch.bool)].max() < 1e-6
    assert effects[-1].diagonal()[ids != other].min() > 0


def test_bad_shapes_are_refused(tiny_bert, batch):
    ids = batch["input_ids"][0]
    with pytest.raises(ValueError, match="substitutes"):
        replacement_effects(tiny_bert.model, ids, ids)
    with pytest.raises(ValueError, match="one length"):
        patching_effects(tiny_bert.model, ids, ids[:-1])


def test_random_replacements_draw_ordinary_tokens_and_stay_the_same(tiny_bert, batch):
    ids = batch["input_ids"].repeat(2, 1)
    found = random_replacements(tiny_bert.model, ids)
    assert found.shape == (2, tiny_bert.model.config.num_hidden_layers + 1, ids.shape[1], ids.shape[1])
    assert torch.equal(found, random_replacements(tiny_bert.model, ids))
    assert not torch.allclose(found, random_replacements(tiny_bert.model, ids, seed=1))
    same = ids.clone()
    same[:, 1:-1] = ids[0, 1]  # one kind of ordinary token: replacing it by itself changes nothing
    assert random_replacements(tiny_bert.model, same)[..., 1:-1].max() == 0
    with pytest.raises(ValueError, match="at least 3 tokens"):
        random_replacements(tiny_bert.model, ids[0])


def test_predictions_are_means_of_maps_and_rollouts(tiny_bert, batch):
    weights = torch.stack([state.weights[0] for state in layer_states(tiny_bert.model, batch)])
    found = predictions(tiny_bert.model, batch["input_ids"], {"most": 0.7})
    assert list(found) == ["mean of maps", "this layer", "most"]
    assert torch.allclose(found["this layer"][0], weights.mean(1))
    assert torch.allclose(found["mean of maps"][0, 1], weights[:2].mean((0, 1)), atol=1e-6)
    assert torch.equal(found["most"][0], rollout(weights, residual=0.7))


@pytest.mark.parametrize("seed", range(4))
def test_a_tree_flows_one_way_and_has_few_sources(seed):
    generator, n = torch.Generator().manual_seed(seed), 18
    flows = torch.zeros(n, n)  # row: receives; a random tree, content goes to the root 0 through all parents
    for node in range(1, n):
        parent = int(torch.randint(node, (1,), generator=generator)) if seed else node - 1  # seed 0: a chain
        while True:
            flows[parent, node] = 1.0 + torch.rand((), generator=generator)
            if parent == 0:
                break
            parent = int(torch.nonzero(flows[:, parent])[:, 0].max())  # the nearest of those it flows to
    order = torch.randperm(n, generator=generator)
    everything = torch.ones(n, dtype=torch.bool)
    assert one_way(flows[order][:, order], everything) == pytest.approx(1.0)
    sources = (flows > 0).sum() / n
    assert sources <= (n - 1) / 2 and (seed or sources == (n - 1) / 2)


def test_equal_ways_give_one_half_and_special_tokens_are_left_out():
    amounts = torch.tensor([[0.0, 9.0, 0.0], [0.0, 0.0, 3.0], [0.0, 1.0, 0.0]])
    assert one_way(amounts + amounts.T, torch.ones(3, dtype=torch.bool)) == pytest.approx(0.5)
    assert one_way(amounts, torch.tensor([False, True, True])) == pytest.approx(0.75)


def test_rank_correlation_equals_that_of_scipy_with_ties():
    generator = torch.Generator().manual_seed(0)
    one, other = (torch.randint(6, (5, 12), generator=generator).float() for _ in range(2))
    expected = [spearmanr(a, b).statistic for a, b in zip(one.numpy(), other.numpy(), strict=True)]
    assert rank_correlation(one, other).tolist() == pytest.approx(expected, abs=1e-9)
    assert rank_correlation(torch.ones(3), torch.arange(3.0)).isnan()


def test_heads_that_read_alike_are_not_apart_and_shifts_are_fully():
    same = torch.full((3, 5, 5), 0.2)
    assert apart(same) == pytest.approx(0.0, abs=1e-6)
    shifts = torch.stack([torch.eye(5).roll(k, 1) for k in range(3)])
    assert apart(shifts) == pytest.approx(1.0)


def test_others_are_the_pairs_of_different_ordinary_tokens():
    amounts = torch.arange(16.0).view(1, 4, 4)
    ordinary = torch.tensor([False, True, True, True])
    assert others(amounts, ordinary).tolist() == [[[6, 7], [9, 11], [13, 14]]]


def test_rows_of_sinks_average_to_the_summary_of_contributions(tiny_bert):
    text = "The cat sat on the mat."
    summary = contribution_norms(tiny_bert.model, tiny_bert.tokenizer, text)["encoder"].summary()
    rows = sink_rows(tiny_bert.model, tiny_bert.tokenizer, [text])
    for values, column in zip(rows, ("sink_weight", "sink_norm", "added"), strict=True):
        assert values.mean(-1).flatten().tolist() == pytest.approx(summary[column].tolist(), abs=1e-5)
    both = sink_rows(tiny_bert.model, tiny_bert.tokenizer, [text, text])
    assert both[0].shape[-1] == 2 * rows[0].shape[-1]
