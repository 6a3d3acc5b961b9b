"""Importance: gradients against finite differences, ablation against one head at a time, norms against the module."""

from __future__ import annotations

import copy
import re
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from statistics import median

import families
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pandas.testing import assert_frame_equal
from scipy.stats import spearmanr
from torch.nn import functional
from transformers import BertForSequenceClassification

from utils.architectures import attentions
from utils.attention import MultiHeadAttention
from utils.corpora import passages
from utils.heads import Head, ablated, gated, heads_of
from utils.importance import ablation_effect, contribution_norms, importance
from utils.pruning import prune

TEXTS = ["The cat sat on the mat.", "A dog.", "It is what it was before."]
TARGETS = ["A dog ran.", "It", "The mat was before the cat."]
KINKS = {"llama": 1e-6, "t5": 1e-4, "translator": 1e-4}  # norms in float32, ReLU: slopes below are not clear
CONTEXT = [HealthCheck.function_scoped_fixture]


def batch_of(family: families.Family, texts: list[str] = TEXTS, targets: list[str] = TARGETS) -> dict:
    return families.batch_of(family, texts, targets[: len(texts)])


def score(outputs, batch: dict) -> torch.Tensor:
    """A smooth number for every text, (texts,), that reads all real positions and no padding."""
    states = outputs.last_hidden_state if "last_hidden_state" in outputs else outputs.logits
    mask = batch.get("decoder_attention_mask", batch["attention_mask"])
    weights = torch.linspace(-1, 1, states.shape[-1]).to(states)
    return (((states * weights).mean(-1)).tanh() * mask).sum(1) / mask.sum(1)


def mean_score(outputs, batch: dict) -> torch.Tensor:
    return score(outputs, batch).mean()


@torch.no_grad()
def slopes(model, batches: list[dict], loss, step: float = 2**-8) -> np.ndarray:
    """−∂L/∂gate of every head by central finite differences, with one gate for all texts."""
    found, texts = [], [len(next(iter(batch.values()))) for batch in batches]
    for head in heads_of(model):
        ends = []
        for gate in (1 - step, 1 + step):
            with gated(model, {head: torch.tensor(gate, dtype=torch.float64)}):
                values = [float(loss(model(**batch), batch).mean()) for batch in batches]
            ends.append(np.average(values, weights=texts))
        found.append((ends[0] - ends[1]) / (2 * step))
    return np.array(found)


def agree(signed: np.ndarray, expected: np.ndarray, noise: float) -> None:
    assert (np.abs(expected) > noise).sum() > len(expected) / 2  # there is something to compare
    clear = np.abs(expected) > noise
    assert (np.sign(signed[clear]) == np.sign(expected[clear])).all()
    assert np.corrcoef(signed, expected)[0, 1] >= 0.99


def test_a_copy_made_within_a_scope_that_has_ended_is_scored_as_the_whole_model(tiny_bert):
    """The copy still carries the ended gate: what goes through gates in place passes it by."""
    model, batches = tiny_bert.model, [batch_of(tiny_bert)]
    with gated(model, {Head(0, 1): 0.0}):
        copied = copy.deepcopy(model)
    for mode, reference in (("zero", None), ("mean", batches)):
        expected = ablation_effect(model, batches, score, mode=mode, reference=reference)
        found = ablation_effect(copied, batches, score, mode=mode, reference=reference)
        assert_frame_equal(found, expected, atol=1e-7)


# --- gradient scores


def test_the_signed_score_is_the_slope_of_a_finite_difference(family):
    model = family.model.double()
    batches = [batch_of(family, TEXTS[:2]), batch_of(family, TEXTS[2:], TARGETS[2:])]
    frame = importance(model, batches, score)
    expected = slopes(model, batches, score)
    for kind in frame["kind"].unique():
        of_kind = frame["kind"] == kind
        agree(frame["signed"][of_kind].to_numpy(), expected[of_kind], noise=KINKS.get(family.name, 1e-7))
    assert list(zip(frame["layer"], frame["head"], frame["kind"], strict=True)) == [tuple(h) for h in heads_of(model)]


def test_the_signed_score_of_minilm_is_the_slope_of_a_finite_difference(minilm):
    batch = minilm.tokenizer(passages(4), return_tensors="pt", padding=True, truncation=True, max_length=12)
    frame = importance(minilm.model, [batch], score)
    heads = frame.iloc[::8]
    model = copy.deepcopy(minilm.model).double()
    expected = []
    for row in heads.itertuples():
        ends = []
        for gate in (1 - 2**-10, 1 + 2**-10):
            with gated(model, {Head(row.layer, row.head): torch.tensor(gate).double()}), torch.no_grad():
                ends.append(float(score(model(**batch), batch).mean()))
        expected.append((ends[0] - ends[1]) / 2**-9)
    agree(heads["signed"].to_numpy(), np.array(expected), noise=1e-6)


def test_a_text_has_the_same_gradients_alone_and_in_company(family):
    family.model.double()
    together = importance(family.model, [batch_of(family)], score)
    alone = [importance(family.model, [batch_of(family, [t], [d])], score) for t, d in zip(TEXTS, TARGETS, strict=True)]
    for column in ("absolute", "signed", "active"):
        expected = np.mean([frame[column] for frame in alone], axis=0)
        np.testing.assert_allclose(together[column], expected, rtol=1e-6, atol=1e-12)


def test_a_mean_over_texts_and_one_value_a_text_are_the_same_loss(tiny_bert):
    batches = [batch_of(tiny_bert), batch_of(tiny_bert, TEXTS[:1])]
    each, mean = (importance(tiny_bert.model, batches, loss) for loss in (score, mean_score))
    np.testing.assert_allclose(each.iloc[:, 3:].to_numpy(float), mean.iloc[:, 3:].to_numpy(float), atol=1e-6)


def test_absolute_values_hide_what_signs_tell(tiny_bert):
    def both_ways(outputs, batch):
        return score(outputs, batch) * torch.tensor([1.0, -1.0])

    frame = importance(tiny_bert.model, [batch_of(tiny_bert, [TEXTS[0]] * 2)], both_ways)
    assert frame["absolute"].min() > 1e-6
    assert frame["signed"].abs().max() < 1e-6


def test_the_fisher_score_estimates_the_squared_slope_of_the_representation(tiny_bert):
    model, batch = tiny_bert.model.double(), batch_of(tiny_bert, TEXTS[:1])
    frame = importance(model, [batch], score, projections=250)
    expected = []
    with torch.no_grad():
        for head in heads_of(model):
            ends = []
            for gate in (1 - 2**-13, 1 + 2**-13):
                with gated(model, {head: torch.tensor(gate).double()}):
                    ends.append(model(**batch).last_hidden_state[0].mean(0))
            expected.append(float(((ends[1] - ends[0]) / 2**-12).square().sum()))
    np.testing.assert_allclose(frame["fisher"], expected, rtol=0.35)


def test_a_fidelity_loss_has_no_gradient_at_the_full_model_but_a_fisher_score(tiny_bert):
    model, batch = tiny_bert.model, batch_of(tiny_bert)
    with torch.no_grad():
        before = model(**batch).last_hidden_state

    def distance(outputs, batch):
        return ((outputs.last_hidden_state - before).square().mean(-1) * batch["attention_mask"]).sum(1)

    frame = importance(model, [batch], distance)
    assert frame["absolute"].max() == frame["signed"].abs().max() == 0
    assert frame["fisher"].min() > 0


def test_a_classifier_reads_one_position_of_its_last_layer(make):
    family = make("bert")
    model = BertForSequenceClassification(family.model.config).eval()
    batch = batch_of(family)
    real = float(batch["attention_mask"].sum(1).double().mean())

    def loss(outputs, batch):
        return functional.cross_entropy(outputs.logits, torch.tensor([0, 1, 0]), reduction="none")

    frame, per_position = (importance(model, [batch], loss, per_position=each) for each in (False, True))
    last = frame["layer"] == frame["layer"].max()
    assert (frame["active"][last] == 1).all()
    assert frame["active"][~last].to_numpy() == pytest.approx(real)
    assert per_position["absolute"][last].to_numpy() == pytest.approx(frame["absolute"][last].to_numpy())
    assert (per_position["absolute"][~last] < 0.5 * frame["absolute"][~last]).all()


def test_two_rounds_with_a_head_taken_out_in_between(family):
    model, batch = family.model.double(), batch_of(family)
    first = importance(model, [batch], score)
    worst = first.loc[first["absolute"].idxmin()]
    gone = Head(int(worst["layer"]), int(worst["head"]), worst["kind"])
    with ablated(model, [gone]):
        second = importance(model, [batch], score)
        expected = slopes(model, [batch], score)
    agree(second["signed"].to_numpy(), expected, noise=KINKS.get(family.name, 1e-7))
    place = heads_of(model).index(gone)
    assert second.iloc[place][["absolute", "signed", "fisher"]].tolist() == [0, 0, 0]
    assert (second.drop(place)["absolute"] > 0).all()


@pytest.mark.parametrize("name", ["bert", "llama", "bart"])
def test_heads_that_were_removed_are_absent_and_the_rest_keep_their_numbers(make, name):
    family = make(name)
    kind = heads_of(family.model)[0].kind
    gone = [Head(0, 0, kind), Head(1, 1, kind)]
    pruned, batch = prune(family.model, gone), batch_of(family)
    pruned.double(), family.model.double()
    frame = importance(pruned, [batch], score)
    left = [head for head in heads_of(family.model) if head not in gone]
    assert list(zip(frame["layer"], frame["head"], frame["kind"], strict=True)) == [tuple(head) for head in left]
    agree(frame["signed"].to_numpy(), slopes(pruned, [batch], score), noise=KINKS.get(name, 1e-7))
    with ablated(family.model, gone):
        expected = ablation_effect(family.model, [batch], score, heads=left)
    found = ablation_effect(pruned, [batch], score, heads=[*gone, *left])
    np.testing.assert_allclose(found["effect"], expected["effect"], atol=1e-5)
    norms = contribution_norms(pruned, family.tokenizer, families.SENTENCE, family.target)[kind]
    rows = norms.summary()[["layer", "head"]].itertuples(index=False)
    assert [Head(*row, kind) for row in rows] == [head for head in left if head.kind == kind]
    assert norms.norms[1, 1].isnan().all() and norms.norms[1, 0].isfinite().all()


@pytest.mark.parametrize("scope", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_nothing_of_a_model_changes_and_the_scope_around_does_not_matter(family, scope):
    batch = batch_of(family)
    expected = importance(family.model, [batch], score)
    family.model.train()
    for parameter in list(family.model.parameters())[::2]:
        parameter.requires_grad_(False)
    next(iter(family.model.parameters())).grad = gradient = torch.ones_like(next(iter(family.model.parameters())))
    handle = next(attentions(family.model)[0].output.modules()).register_forward_pre_hook(lambda _module, _args: None)
    before = families.state(family.model)
    with scope():
        found = importance(family.model, [batch_of(family)], score)
        effects = ablation_effect(family.model, [batch_of(family)], score, heads=heads_of(family.model)[:3])
    families.same(before, families.state(family.model))
    np.testing.assert_allclose(
        found.iloc[:, 3:].to_numpy(float), expected.iloc[:, 3:].to_numpy(float), rtol=1e-4, atol=1e-7
    )
    assert np.isfinite(effects["effect"]).all()
    grads = [each.grad for each in family.model.parameters()]
    assert grads[0] is gradient and bool((gradient == 1).all()) and set(grads[1:]) == {None}
    handle.remove()


def test_a_model_with_an_exception_in_it_is_itself_again(tiny_bert):
    batch = batch_of(tiny_bert)
    before = families.state(tiny_bert.model)

    def fails(outputs, batch):
        if calls.append(1) or len(calls) > 2:
            raise ZeroDivisionError

        return score(outputs, batch)

    for function in (importance, ablation_effect):
        calls = [1, 1] if function is importance else []
        with pytest.raises(ZeroDivisionError):
            function(tiny_bert.model, [batch], fails)
    families.same(before, families.state(tiny_bert.model))


def test_the_books_own_attention_alone_has_scores():
    torch.manual_seed(0)
    model, batch = MultiHeadAttention(16, 4), {"x": torch.randn(3, 5, 16)}

    def loss(outputs, batch):
        return outputs[0].square().mean((1, 2))

    frame = importance(model, [batch], loss, represent=lambda outputs, batch: outputs[0].flatten(1))
    assert len(frame) == 4 and (frame["fisher"] > 0).all()
    one = ablation_effect(model, [batch], loss)
    with ablated(model, [Head(0, 2)]), torch.no_grad():
        assert one["value"][2] == pytest.approx(float(loss(model(**batch), batch).mean()), abs=1e-7)


# --- exact ablation


@pytest.mark.parametrize("mode", ["zero", "mean", "resample"])
def test_effects_equal_one_head_at_a_time(family, mode):
    batches = [batch_of(family, TEXTS[:2]), batch_of(family, TEXTS[2:], TARGETS[2:])]
    reference = None if mode == "zero" else [batch_of(family, ["Before the cat was.", "What?"])]
    before = families.state(family.model)
    frame = ablation_effect(family.model, batches, score, mode=mode, reference=reference, seed=3)
    families.same(before, families.state(family.model))
    with torch.no_grad():
        full = float(torch.cat([score(family.model(**batch), batch) for batch in batches]).mean())
        assert frame.attrs["full"] == pytest.approx(full, abs=1e-6)
        for row, head in list(zip(frame.itertuples(), heads_of(family.model), strict=True))[
            :: 1 if mode == "zero" else 3
        ]:
            with ablated(family.model, [head], mode, reference, seed=3):
                value = float(torch.cat([score(family.model(**batch), batch) for batch in batches]).mean())
            assert (row.kind, row.layer, row.head) == (head.kind, head.layer, head.head)
            assert row.value == pytest.approx(value, abs=1e-6)
            assert row.effect == pytest.approx(value - full, abs=1e-6)
    assert frame["effect"].abs().max() > 1e-4


@pytest.mark.parametrize("together", [1, 3])
@pytest.mark.parametrize("name", ["bert", "bart", "t5"])
def test_gates_and_hooks_around_the_call_stay_in_force(make, name, together):
    family = make(name)
    model, batch, calls = family.model, batch_of(family), []
    found = attentions(model)
    gates = {each.kind: None for each in found}
    for kind in gates:
        of_kind = [each for each in found if each.kind == kind]
        gates[kind] = torch.rand(3, len(of_kind), of_kind[0].all_heads)  # of every text another
    lower = found[0].module.register_forward_hook(
        lambda _module, _args, out: calls.append(1) or (out[0] * 1.5, *out[1:])
    )
    value = found[1].value.register_forward_hook(lambda _module, _args, out: out.mul_(0.5))  # in place
    with gated(model, gates), torch.no_grad():
        frame = ablation_effect(model, [batch], score, together=together)
        for row in frame.iloc[::3].itertuples():
            with ablated(model, [Head(row.layer, row.head, row.kind)]):
                assert row.value == pytest.approx(float(score(model(**batch), batch).mean()), abs=1e-6)
    assert calls
    lower.remove(), value.remove()


def test_outputs_with_a_loss_from_labels_run_one_at_a_time(make):
    for name in ("gpt2", "t5", "translator"):
        family = make(name)
        batch = batch_of(family)
        ids = batch.pop("decoder_input_ids", batch["input_ids"])
        mask = batch.get("decoder_attention_mask", batch["attention_mask"])
        batch["labels"] = ids.masked_fill(mask == 0, -100)
        frame = ablation_effect(family.model, [batch], lambda outputs, _: outputs.loss)
        with torch.no_grad():
            for row in frame.iloc[::4].itertuples():
                with ablated(family.model, [Head(row.layer, row.head, row.kind)]):
                    assert row.value == pytest.approx(float(family.model(**batch).loss), abs=1e-6)


def test_outputs_with_maps_and_states_are_whole(make):
    family = make("bert", attn_implementation="eager")
    batch = batch_of(family) | {"output_attentions": True, "output_hidden_states": True}

    def all_of_it(outputs, batch):
        mask = batch["attention_mask"][..., None]
        states = sum((each * mask).mean((1, 2)) for each in outputs.hidden_states)
        return states + sum((each.square() * mask[:, None]).mean((1, 2, 3)) for each in outputs.attentions)

    frame = ablation_effect(family.model, [batch], all_of_it)
    with torch.no_grad():
        for row in frame.itertuples():
            with ablated(family.model, [Head(row.layer, row.head)]):
                assert row.value == pytest.approx(float(all_of_it(family.model(**batch), batch).mean()), abs=1e-6)


@pytest.mark.parametrize("name", ["bert", "gpt2", "bart", "t5"])
def test_layers_below_are_not_computed_again(make, name):
    family, runs = make(name), []
    found = attentions(family.model)
    for each in found:
        each.output.register_forward_hook(lambda *_, name=each.name: runs.append(name))
    last = found[-1]
    ablation_effect(family.model, [batch_of(family)], score, heads=[Head(last.layer, 0, last.kind)])
    assert [runs.count(each.name) for each in found] == [1] * (len(found) - 1) + [2]


def test_chosen_heads_keep_their_order(tiny_bert):
    heads = [Head(2, 1), Head(0, 3), Head(2, 0), Head(2, 1)]
    frame = ablation_effect(tiny_bert.model, [batch_of(tiny_bert)], score, heads=heads)
    assert list(zip(frame["layer"], frame["head"], strict=True)) == [(2, 1), (0, 3), (2, 0)]
    whole = ablation_effect(tiny_bert.model, [batch_of(tiny_bert)], score).set_index(["layer", "head"])
    expected = [whole.loc[each, "effect"] for each in [(2, 1), (0, 3), (2, 0)]]
    np.testing.assert_allclose(frame["effect"], expected, atol=1e-6)


# --- contribution norms


def test_contributions_add_up_to_what_the_attention_gives(family):
    outputs: dict[str, torch.Tensor] = {}
    found = attentions(family.model)
    for each in found:
        each.output.register_forward_hook(lambda _m, _a, out, name=each.name: outputs.update({name: out[0]}))
    values: dict[str, torch.Tensor] = {}
    for each in found:
        each.value.register_forward_hook(lambda _m, _a, out, name=each.name: values.update({name: out[0]}))
    result = contribution_norms(family.model, family.tokenizer, families.SENTENCE, family.target)
    assert list(result) == list(dict.fromkeys(each.kind for each in found))
    for each in found:
        of_kind = result[each.kind]
        stored = each.values(values[each.name])  # (keys, heads, d_head)
        parts = torch.einsum("hqk,khd,hdw->hqkw", of_kind.weights[each.layer], stored, each.output_blocks())
        whole = parts.sum((0, 2)) + (0 if each.output.bias is None else each.output.bias)
        torch.testing.assert_close(whole, outputs[each.name], atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(of_kind.norms[each.layer], parts.norm(dim=-1), atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(of_kind.added[each.layer], parts.sum(2).norm(dim=-1), atol=1e-5, rtol=1e-4)


def test_the_norms_of_one_head_by_hand(tiny_bert):
    model = tiny_bert.model
    states = []
    handle = model.encoder.layer[1].register_forward_pre_hook(lambda _module, args: states.append(args[0]))
    found = contribution_norms(model, tiny_bert.tokenizer, families.SENTENCE, layers=[1])["encoder"]
    handle.remove()
    own, x = model.encoder.layer[1].attention, states[-1][0]
    rows = slice(16, 24)  # head 2 of width 8
    f = (x @ own.self.value.weight[rows].T + own.self.value.bias[rows]) @ own.output.dense.weight[:, rows].T
    expected = found.maps.head(1, 2) * f.norm(dim=-1)
    torch.testing.assert_close(found.norms[0, 2], expected.detach(), atol=1e-6, rtol=1e-5)
    frame = found.to_frame()
    assert list(frame.columns)[-2:] == ["weight", "norm"] and set(frame["layer"]) == {1}
    row = frame[(frame["head"] == 2) & (frame["query"] == 3) & (frame["key"] == 0)]
    assert float(row["norm"].iloc[0]) == pytest.approx(expected[3, 0].item(), abs=1e-6)


def test_a_summary_compares_weight_and_norm(family):
    for kind, found in contribution_norms(family.model, family.tokenizer, families.SENTENCE, family.target).items():
        frame = found.summary()
        assert len(frame) == len(found.weights[..., 0, 0].flatten()) and (frame["kind"] == kind).all()
        for column in ("sink_weight", "sink_norm", "cancelled"):
            assert frame[column].between(-1e-6, 1 + 1e-6).all()
        assert (frame["added"] > 0).all()


def test_minilm_gives_its_sinks_more_weight_than_content(minilm):
    frame = contribution_norms(minilm.model, minilm.tokenizer, passages(1)[0])["encoder"].summary()
    sinks = frame[frame["sink_weight"] > 0.5]
    assert len(sinks) > 10
    assert (sinks["sink_norm"] < sinks["sink_weight"]).all()


# --- what the scores say about MiniLM


def test_the_fisher_score_ranks_heads_by_how_far_they_move_the_embedding(minilm):
    batch = dict(minilm.tokenizer(passages(6), return_tensors="pt", padding=True, truncation=True, max_length=12))
    with torch.no_grad():
        before = embedding(minilm.model(**batch), batch)

    def moved(outputs, batch):
        return 1 - (embedding(outputs, batch) * before).sum(1)

    effect = ablation_effect(minilm.model, [batch], moved)["effect"]
    frame = importance(minilm.model, [batch], moved, represent=embedding, projections=4)
    null = [spearmanr(np.random.default_rng(seed).random(72), effect).statistic for seed in range(100)]
    rank = spearmanr(frame["fisher"], effect).statistic
    print(f"\nSpearman of fisher with 1 − cosine: {rank:.2f}; random scores: up to {max(null):.2f}")
    assert rank > 0.6 > max(null)
    assert frame["absolute"].max() < 1e-3 * effect.max()  # the distance is flat at the full model


def embedding(outputs, batch: dict) -> torch.Tensor:
    mask = batch["attention_mask"][..., None].float()
    return functional.normalize((outputs.last_hidden_state * mask).sum(1) / mask.sum(1), dim=-1)


# --- cost


@pytest.fixture
def sentences(minilm):
    return dict(minilm.tokenizer(passages(4), return_tensors="pt", padding=True, truncation=True, max_length=16))


def test_all_gradient_scores_cost_at_most_four_training_passes(minilm, sentences):
    model = copy.deepcopy(minilm.model)

    def train():
        model.zero_grad()
        mean_score(model(**sentences), sentences).backward()

    ratio = ratios(lambda: importance(model, [sentences], score), train, 3)
    print(f"\nthree scores of 72 heads: {ratio:.2f} forward–backward passes")
    assert ratio <= 4


def test_all_effects_cost_at_most_six_tenths_of_one_head_at_a_time(minilm, sentences):
    heads = [Head(layer, head) for layer in range(6) for head in (0, 4)]

    @torch.no_grad()
    def one_at_a_time():
        for head in heads:
            with ablated(minilm.model, [head]):
                score(minilm.model(**sentences), sentences)

    ratio = ratios(lambda: ablation_effect(minilm.model, [sentences], score, heads=heads), one_at_a_time, 3)
    print(f"\neffects of 12 heads (the full model included): {ratio:.2f} of one at a time")
    assert ratio <= 0.7  # 72 heads, of which the full model is a smaller part: tools.benchmarks


def ratios(new, old, times: int) -> float:
    """Median ratio of the processor times of two functions, taken in turn."""
    found = []
    for _ in range(times):
        start = time.process_time()
        new()
        middle = time.process_time()
        old()
        found.append((middle - start) / (time.process_time() - middle))
    return median(found)


# --- what is refused

BAD_LOSSES = {
    "a number": (lambda o, b: 1.0, "carries no gradient"),
    "text": (lambda o, b: "1", "must return a tensor, got str"),
    "nothing": (lambda o, b: None, "must return a tensor, got NoneType"),
    "detached": (lambda o, b: score(o, b).detach(), "carries no gradient"),
    "without gradient": (torch.no_grad()(score), "carries no gradient"),
    "complex": (lambda o, b: score(o, b) * 1j, "the loss must be a real number, got torch.complex64"),
    "independent": (lambda o, b: torch.ones((), requires_grad=True) * 2, "does not depend on any head"),
    "wrong shape": (lambda o, b: o.last_hidden_state.mean(1), r"one a text \(3,\), got the shape \(3, 32\)"),
    "too short": (lambda o, b: score(o, b)[:2], r"got the shape \(2,\)"),
    "not a number": (lambda o, b: score(o, b) * torch.nan, "is not finite"),
    "padding": (lambda o, b: o.last_hidden_state.mean((1, 2)), "reads padding"),
    "infinite slope": (lambda o, b: (score(o, b) * 0).abs().sqrt(), "gradient of the loss of batch 0 is not finite"),
}


@pytest.mark.parametrize("what", BAD_LOSSES)
def test_a_loss_that_does_not_fit_is_refused(tiny_bert, what):
    loss, message = BAD_LOSSES[what]
    with pytest.raises((TypeError, ValueError), match=message):
        importance(tiny_bert.model, [batch_of(tiny_bert)], loss)


BAD_FEATURES = {
    "text": (lambda o, b: "e", "represent must return a tensor"),
    "one value a text": (score, r"shape \(3, features\), got torch.float32 of the shape \(3,\)"),
    "whole numbers": (lambda o, b: b["input_ids"], "got torch.int64"),
    "detached": (lambda o, b: o.last_hidden_state.mean(1).detach(), "the representation carries no gradient"),
    "padding": (lambda o, b: o.last_hidden_state.mean(1), "the representation of batch 0 reads padding"),
    "not a number": (lambda o, b: o.last_hidden_state.mean(1) / 0, "representation of batch 0 is not finite"),
}


@pytest.mark.parametrize("what", BAD_FEATURES)
def test_a_representation_that_does_not_fit_is_refused(tiny_bert, what):
    represent, message = BAD_FEATURES[what]
    with pytest.raises((TypeError, ValueError), match=message):
        importance(tiny_bert.model, [batch_of(tiny_bert)], score, represent=represent)


IDS = torch.tensor([[2, 7, 8, 3], [2, 9, 3, 0]])
MASK = (IDS > 0).long()
BAD_BATCHES = st.sampled_from(
    [
        [],
        None,
        3,
        "text",
        [None],
        ["text"],
        [{}],
        [{"input_ids": None}],
        [{"input_ids": [[2, 3]]}],
        [{"input_ids": torch.zeros(0, 4, dtype=torch.long)}],
        [{"input_ids": torch.tensor(3)}],
        [{"input_ids": IDS.float()}],
        [{"input_ids": IDS + 10**6}],
        [{"input_ids": -IDS}],
        [{"input_ids": IDS[0]}],
        [{"input_ids": IDS, "attention_mask": MASK * 0}],
        [{"input_ids": IDS, "attention_mask": MASK * torch.tensor([[1], [0]])}],
        [{"input_ids": IDS, "attention_mask": MASK[:, :2]}],
        [{"input_ids": IDS, "attention_mask": MASK[:1].repeat(3, 1)}],
        [{"input_ids": IDS, "attention_mask": "all"}],
        [{"input_ids": IDS, "attention_mask": MASK, "unheard_of": IDS}],
        [{"input_ids": IDS, "attention_mask": MASK, "past_key_values": object()}],
        [{"inputs_embeds": torch.zeros(2, 4, 5)}],
        [{7: IDS}],
    ]
)


@settings(deadline=None, max_examples=30, derandomize=True, suppress_health_check=CONTEXT)
@given(batches=BAD_BATCHES, good=st.integers(0, 1), function=st.sampled_from([importance, ablation_effect]))
def test_batches_that_cannot_be_read_are_refused_in_plain_words(one_bert, batches, good, function):
    if good and isinstance(batches, list):
        batches = [batch_of(one_bert)] * good + batches
    before = families.state(one_bert.model)
    try:
        function(one_bert.model, batches, any_score)
    except (TypeError, ValueError) as error:
        assert re.search("batch|text|no real token", str(error)), error
        assert "utils" in str(error.__traceback__.tb_next.tb_frame.f_code.co_filename)
    else:
        # transformers swallows names it does not know
        assert "unheard_of" in batches[-1] or (good and not batches[1:])
    families.same(before, families.state(one_bert.model))


def test_the_number_of_texts_does_not_come_from_other_keys(tiny_bert):
    """A model may ignore keys that it does not know, whatever their shape and place."""
    batch = batch_of(tiny_bert)
    odd = {"weights_of_classes": torch.ones(7)} | batch
    for function in (importance, ablation_effect):
        plain, found = (function(tiny_bert.model, [each], score) for each in (batch, odd))
        assert_frame_equal(plain, found)


def test_threads_that_share_a_model_wait_for_each_other(tiny_bert):
    model, batch = tiny_bert.model, batch_of(tiny_bert)
    texts = ["The cat sat on the mat.", "A dog."]
    calls = [lambda: importance(model, [batch], score), lambda: ablation_effect(model, [batch], score)]
    calls += [
        lambda text=text: contribution_norms(model, tiny_bert.tokenizer, text)["encoder"].summary() for text in texts
    ]
    alone = [call() for call in calls]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(4) as pool:
            together = list(pool.map(lambda call: call(), calls * 2))
    finally:
        sys.setswitchinterval(interval)
    for expected, found in zip(alone * 2, together, strict=True):
        assert_frame_equal(expected, found)


def test_a_model_without_any_head_is_refused(tiny_bert):
    model = prune(tiny_bert.model, heads_of(tiny_bert.model))
    with pytest.raises(ValueError, match="no head left to score"):
        importance(model, [batch_of(tiny_bert)], score)


def test_labels_that_are_silent_in_between_are_no_padding(make):
    """The decoder reads what came before a position, also where no loss is taken."""
    family = make("bart")
    labels = torch.tensor([[5, -100, 6, 7], [-100, 8, 9, -100]])
    ids = torch.tensor([[0, 7, 8, 2], [0, 9, 2, 1]])
    batch = {"input_ids": ids, "attention_mask": (ids != 1).long(), "labels": labels}
    frame = importance(family.model, [batch], lambda outputs, _: outputs.loss)
    assert (frame["absolute"] > 0).all()


def any_score(outputs, batch: dict) -> torch.Tensor:
    return outputs.last_hidden_state[:, 0].mean(-1)


@pytest.fixture(scope="module")
def one_bert(make):
    return make("bert")


def test_what_else_is_refused(tiny_bert):
    model, batch = tiny_bert.model, batch_of(tiny_bert)
    for wrong in (0, -1, 1.5, True, "2"):
        with pytest.raises(ValueError, match="projections must be a whole number from 1 on"):
            importance(model, [batch], score, projections=wrong)
        with pytest.raises(ValueError, match="together must be a whole number"):
            ablation_effect(model, [batch], score, together=wrong)
    for name, function in (("loss", importance), ("metric", ablation_effect)):
        with pytest.raises(TypeError, match=f"{name} must be a function of"):
            function(model, [batch], 3)
        for seed in ("a", 1.5, None, True, -1):
            with pytest.raises((TypeError, ValueError), match="seed must be"):
                function(model, [batch], score, seed=seed)
        with pytest.raises(ValueError, match="it has|has the attention|no attention"):
            function(torch.nn.Linear(2, 2), [batch], score)
    with pytest.raises(ValueError, match="mode must be one of"):
        ablation_effect(model, [batch], score, mode="one")
    with pytest.raises(ValueError, match="needs reference"):
        ablation_effect(model, [batch], score, mode="mean")
    with pytest.raises(ValueError, match="no head to take out"):
        ablation_effect(model, [batch], score, heads=[])
    with pytest.raises(ValueError, match="head 4 does not exist"):
        ablation_effect(model, [batch], score, heads=[Head(0, 4)])
    with pytest.raises(ValueError, match="metric of batch 0 is not finite"):
        ablation_effect(model, [batch], lambda o, b: score(o, b) / 0)
    with pytest.raises(ValueError, match="layer 9 does not exist"):
        contribution_norms(model, tiny_bert.tokenizer, "The cat", layers=[9])
    with torch.inference_mode():
        built = copy.deepcopy(model)
        for parameter in built.parameters():
            parameter.data = parameter.data.clone()
        stranger = type(model)(model.config)
    with pytest.raises(ValueError, match="built in inference mode"):
        importance(stranger, [batch], score)
