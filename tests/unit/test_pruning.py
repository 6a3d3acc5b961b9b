"""Removing heads: equal to gating, on a copy, in original numbers, for every family; and saving what was done."""

from __future__ import annotations

import families
import pytest
import torch
from families import KINDS, real
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from utils.architectures import attentions
from utils.attention import MultiHeadAttention, attention_maps, head_statistics, rollout
from utils.heads import Head, gated, heads_of
from utils.pruning import prune, removed

PRUNED = [name for name in families.FAMILIES if name != "t5"]
GENERATING = ["gpt2", "llama", "bart", "marian", "translator"]
EVERY_KIND = [(name, kind) for name in PRUNED for kind in KINDS[name]]


def batch(model: nn.Module, seed: int = 0, left: bool = False) -> dict[str, Tensor]:
    """Two texts, the shorter one padded (a text a decoder writes on, at its left), targets likewise."""
    generator = torch.Generator().manual_seed(seed)
    draw = lambda length: torch.randint(5, 100, (2, length), generator=generator)  # noqa: E731
    mask = torch.ones(2, 9, dtype=torch.long)
    mask[0, : 4 if left else None] = 0
    if not left:
        mask[0] = torch.arange(9) < 5
    inputs = {"input_ids": draw(9), "attention_mask": mask}
    if model.config.is_encoder_decoder and not left:
        inputs |= {"decoder_input_ids": draw(6), "decoder_attention_mask": torch.ones(2, 6, dtype=torch.long)}
        inputs["decoder_attention_mask"][0, 4:] = 0
    return inputs


def shut(heads) -> dict[Head, float]:
    return dict.fromkeys(heads, 0.0)


def near(left: Tensor, right: Tensor, bound: float = 1e-5) -> bool:
    left, right = left.detach(), right.detach()
    assert left.isfinite().all() and right.isfinite().all()
    return bool((left - right).abs().max() <= bound)


def some(model: nn.Module, kind: str, seed: int) -> list[Head]:
    """A third of the heads of a kind at random, and all heads of its last layer."""
    heads = [head for head in heads_of(model) if head.kind == kind]
    order = torch.randperm(len(heads), generator=torch.Generator().manual_seed(seed)).tolist()
    last = max(head.layer for head in heads)
    return [heads[i] for i in order[: len(heads) // 3]] + [head for head in heads if head.layer == last]


@pytest.mark.parametrize("backend", ["sdpa", "eager"])
@pytest.mark.parametrize(("name", "kind"), EVERY_KIND)
def test_pruning_equals_gating_on_real_tokens(make, name, kind, backend):
    model = make(name).model
    model.set_attn_implementation(backend)
    before = families.state(model)
    for seed in range(2):
        heads, inputs = some(model, kind, seed), batch(model, seed)
        whole = real(model, inputs)
        with gated(model, shut(heads)):
            expected = real(model, inputs)
        assert not near(whole, expected, 1e-3)  # the heads do something
        assert near(real(prune(model, heads), inputs), expected)
    families.same(before, families.state(model))


@pytest.mark.parametrize("backend", ["sdpa", "eager"])
@pytest.mark.parametrize("name", PRUNED)
def test_a_model_without_any_head_still_runs(make, name, backend):
    model = make(name).model
    model.set_attn_implementation(backend)
    heads, inputs = heads_of(model), batch(model)
    with gated(model, shut(heads)):
        expected = real(model, inputs)
    bare = prune(model, heads)
    assert heads_of(bare) == [] and removed(bare) == heads
    assert near(real(bare, inputs), expected)
    again = prune(bare, heads[:3])
    assert near(real(again, inputs), expected)
    with gated(bare, shut(heads[:2])):
        assert near(real(bare, inputs), expected)


@pytest.mark.parametrize("name", PRUNED)
def test_weights_are_really_gone_and_only_those(make, name):
    model = make(name).model
    count = lambda each: sum(tensor.numel() for tensor in each.parameters())  # noqa: E731
    first = attentions(model)[0]
    width = first.output_blocks().shape[-1]
    bias = getattr(first.output, "bias", None) is not None
    head = Head(0, 0, first.kind)
    shared = first.groups.count(0) > 1  # then keys and values stay for the other readers
    expected = (2 if shared else 4) * width * first.size + (0 if shared or not bias else 3 * first.size)
    expected += 17 if name == "translator" else 0  # its row of relative biases, 8 distances to either side
    assert count(model) - count(prune(model, [head])) == expected
    bare = prune(model, heads_of(model))
    assert all(each.output.weight.numel() == 0 for each in attentions(bare))


@pytest.mark.parametrize("name", PRUNED)
def test_pruning_in_rounds_equals_pruning_at_once_in_original_numbers(make, name):
    model = make(name).model
    heads, inputs = heads_of(model), batch(model)
    first, second = heads[1::3], heads[2::3]
    once = prune(model, first + second)
    rounds = prune(prune(model, first), second[:1] + first[:2] + second[1:] + second[:1])
    assert heads_of(once) == heads_of(rounds) == heads[0::3]
    assert removed(rounds) == sorted(first + second, key=heads.index)
    assert torch.equal(real(once, inputs), real(rounds, inputs))
    left = heads[0::3][:2]
    with gated(rounds, shut(left)):
        expected = real(rounds, inputs)
    with gated(rounds, shut(left + first)):  # gates of heads that are not there do nothing
        assert torch.equal(real(rounds, inputs), expected)
    assert near(real(prune(rounds, left), inputs), expected)


@pytest.mark.parametrize("backend", ["sdpa", "eager"])
@pytest.mark.parametrize("name", GENERATING)
@pytest.mark.parametrize("everything", [False, True], ids=["some heads", "all heads"])
def test_a_pruned_model_generates_what_a_gated_one_does(make, name, everything, backend):
    model = make(name).model
    model.set_attn_implementation(backend)
    kinds = KINDS[name]
    heads = heads_of(model) if everything else [head for kind in kinds for head in some(model, kind, 3)][1:]
    inputs, pruned = batch(model, left=True), prune(model, heads)
    for beams in (1, 3):
        options = dict(num_beams=beams, max_new_tokens=6, min_new_tokens=6, do_sample=False, pad_token_id=1)
        with gated(model, shut(heads)):
            expected = model.generate(**inputs, **options)
        found = pruned.generate(**inputs, **options)
        assert torch.equal(found, expected)
        if name != "translator":  # its cache is its own and always on
            assert torch.equal(pruned.generate(**inputs, **options, use_cache=False), expected)


def test_cross_attention_of_a_bert_that_decodes_is_pruned(make):
    model = make("bert", is_decoder=True, add_cross_attention=True).model
    inputs = batch(model) | {"encoder_hidden_states": torch.randn(2, 7, 32)}
    heads = [Head(0, 1, "cross"), Head(1, 3, "decoder"), *(Head(2, i, "cross") for i in range(4))]
    with gated(model, shut(heads)):
        expected = real(model, inputs)
    assert near(real(prune(model, heads), inputs), expected)


@pytest.mark.parametrize("rows", [1, 3])
def test_our_own_attention_alone_is_pruned(rows):
    torch.manual_seed(0)
    attention = MultiHeadAttention(32, 4).eval()
    x = torch.randn(rows, 5, 32)
    with gated(attention, {Head(0, 2): 0.0}):
        expected = attention(x)[0]
    pruned = prune(attention, [Head(0, 2)])
    assert pruned.heads == 3 and near(pruned(x)[0], expected)
    weights = pruned(x, need_weights=True)[1]
    assert torch.allclose(weights, attention(x, need_weights=True)[1][:, [0, 1, 3]], atol=1e-6)
    assert torch.allclose(prune(attention, heads_of(attention))(x)[0], attention.output.bias.expand(rows, 5, -1))


# --- grouped queries


def kv_rows(model: nn.Module, layer: int = 0) -> tuple[int, int]:
    """Key/value heads whose weights a Llama still has, and query heads a key/value head in its attention."""
    attention = model.model.layers[layer].self_attn
    return attention.k_proj.weight.shape[0] // attention.head_dim, attention.num_key_value_groups


@pytest.mark.parametrize(
    ("gone", "rows", "readers", "cached"),
    [
        ([0, 1, 2, 3], 1, 4, 1),  # a whole group
        ([0, 1, 6, 7], 2, 2, 2),  # groups stay even
        ([0, 1, 2], 2, 1, 5),  # uneven: the cache holds a key for each of the five query heads
        ([0, 1, 2, 4, 5, 6], 2, 1, 2),
        ([4, 5, 6, 7, 0], 1, 3, 1),
    ],
)
def test_key_value_heads_go_with_their_last_reader(make, gone, rows, readers, cached):
    model = make("llama").model
    inputs, heads = batch(model), [Head(0, head) for head in gone]
    with gated(model, shut(heads)):
        expected = real(model, inputs)
    pruned = prune(model, heads)
    assert kv_rows(pruned) == (rows, readers)
    assert near(real(pruned, inputs), expected)
    assert near(real(prune(prune(model, heads[:1]), heads[1:]), inputs), expected)
    assert kv_rows(prune(prune(model, heads[:1]), heads[1:])) == (rows, readers)
    assert pruned(**inputs, use_cache=True).cache.layers[0].keys.shape[1] == cached


def test_query_heads_name_key_value_heads_by_their_original_numbers(make):
    pruned = prune(make("llama").model, [Head(0, 0), Head(0, 5)])
    assert [attentions(pruned)[0].groups[head] for head in range(8)] == [0, 0, 0, 0, 1, 1, 1, 1]
    with pytest.raises(ValueError, match="heads 0 to 7"):
        prune(pruned, [Head(0, 8)])


# --- around it


@pytest.mark.parametrize("name", PRUNED)
def test_gradients_reach_what_is_left_and_have_the_sign_of_a_finite_difference(make, name):
    family = make(name)
    inputs = batch(family.model)
    loss = lambda model: real_loss(model, inputs)  # noqa: E731
    model = prune(family.model, some(family.model, KINDS[name][-1], 0))
    for _ in range(2):  # two rounds, with pruning in between
        gates = {k: v.requires_grad_() for k, v in ones(model).items()}
        with gated(model, gates):
            loss(model).backward()
        assert all(gate.grad is not None and gate.grad.isfinite().all() for gate in gates.values())
        left = heads_of(model)
        scores = [float(gates[head.kind].grad[head.layer, head.head]) for head in left]
        best = max(range(len(left)), key=lambda i: abs(scores[i]))
        step, ends = 1e-2, []
        for sign in (1, -1):
            with torch.no_grad(), gated(model, {left[best]: 1 + sign * step}):
                ends.append(float(loss(model)))
        assert (ends[0] - ends[1]) / (2 * step) == pytest.approx(scores[best], rel=0.05)
        model = prune(model, [left[best]])


def ones(model: nn.Module) -> dict[str, Tensor]:
    found = attentions(model)
    kinds = dict.fromkeys(each.kind for each in found)
    rows = {kind: [each for each in found if each.kind == kind] for kind in kinds}
    return {kind: torch.ones(len(each), each[0].all_heads) for kind, each in rows.items()}


def real_loss(model: nn.Module, inputs: dict[str, Tensor]) -> Tensor:
    """A scalar of all real outputs, with a gradient; double precision is not needed at this size."""
    out = model(**inputs)
    found = out.logits if "logits" in out else out.last_hidden_state
    found = found[inputs.get("decoder_attention_mask", inputs["attention_mask"]).bool()]
    direction = torch.randn(found.shape, generator=torch.Generator().manual_seed(0))
    return (found * direction).mean()


def test_a_model_without_heads_in_a_layer_trains(make):
    model = prune(make("gpt2").model, [Head(1, head) for head in range(4)]).train()
    inputs = batch(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    before = [tensor.detach().clone() for tensor in model.parameters()]
    model(**inputs, labels=inputs["input_ids"]).loss.backward()
    optimizer.step()
    assert all(torch.isfinite(tensor).all() for tensor in model.parameters())
    assert any(not torch.equal(old, new) for old, new in zip(before, model.parameters(), strict=True))


def test_pruning_inside_a_scope_copies_the_model_without_the_scopes_gates(make):
    model = make("bert").model
    inputs = batch(model)
    expected = real(prune(model, [Head(1, 2)]), inputs)
    with gated(model, {Head(0, 0): 0.0}):
        pruned = prune(model, [Head(1, 2)])
    assert torch.equal(real(pruned, inputs), expected)


def test_a_users_hook_stays_on_the_model_and_on_the_copy(make):
    model, calls = make("bert").model, []
    model.encoder.layer[0].attention.output.dense.register_forward_hook(lambda *_: calls.append(1))
    pruned = prune(model, [Head(0, 1)])
    real(pruned, batch(model))
    real(model, batch(model))
    assert len(calls) == 2


def test_gradients_and_frozen_weights_of_the_original_are_not_mixed_up(make):
    model = make("bert").model
    real_loss(model, batch(model)).backward()
    model.encoder.layer[0].attention.self.query.weight.requires_grad_(False)
    pruned = prune(model, [Head(0, 1)])
    assert all(tensor.grad is None for tensor in pruned.parameters())
    assert not pruned.encoder.layer[0].attention.self.query.weight.requires_grad
    assert pruned.encoder.layer[0].attention.self.key.weight.requires_grad


def test_a_copy_made_in_inference_mode_can_be_tuned(make):
    model = make("llama").model
    with torch.inference_mode():
        pruned = prune(model, [Head(0, 1), Head(1, 0), Head(1, 1)])
    real_loss(pruned, batch(model)).backward()
    assert all(tensor.grad is not None for tensor in pruned.parameters() if tensor.numel())


def test_half_precision_stays(make):
    model = make("bart").model.to(torch.bfloat16)
    pruned = prune(model, some(model, "cross", 0))
    assert {tensor.dtype for tensor in pruned.parameters()} == {torch.bfloat16}
    assert real(pruned, batch(model)).isfinite().all()


def test_t5_is_refused_with_the_reason_and_the_way_out(make):
    model = make("t5").model
    with pytest.raises(ValueError, match=r"T5ForConditionalGeneration.*shared by all its layers.*[Gg]ate"):
        prune(model, [Head(0, 1, "encoder")])
    assert heads_of(prune(model, [])) == heads_of(model)


@pytest.mark.parametrize(
    ("heads", "message"),
    [
        ([(0, -1)], "head -1 does not exist: layer 0 of the encoder has heads 0 to 3"),
        ([(0, 4)], "heads 0 to 3"),
        ([(3, 0)], "layers 0 to 2"),
        ([(0, 1.5)], "whole number, got 1.5"),
        ([(0, True)], "whole number, got True"),
        ([(0, 1, "cross")], "no 'cross' attention: the model has encoder"),
        ([3], "a head is Head"),
        ("heads", "must be a list"),
        (None, "must be a list"),
    ],
)
def test_heads_that_do_not_exist_are_refused_with_the_valid_range(tiny_bert, heads, message):
    with pytest.raises((TypeError, ValueError), match=message):
        prune(tiny_bert.model, heads)
    assert len(heads_of(prune(tiny_bert.model, [(0, 1), Head(0, 1), (0, 1, "encoder")]))) == 11


BAD = st.one_of(
    st.none(),
    st.integers(),
    st.text(max_size=3),
    st.floats(),
    st.lists(
        st.one_of(
            st.tuples(st.integers(-3, 9), st.integers(-3, 9)),
            st.tuples(st.integers(0, 2), st.integers(0, 3), st.sampled_from(["encoder", "cross", "", None, 3])),
            st.tuples(st.floats(0, 2), st.integers(0, 3)),
            st.tuples(st.booleans(), st.integers(0, 3)),
            st.integers(0, 3),
            st.text(max_size=2),
            st.none(),
        ),
        max_size=4,
    ),
)


@pytest.fixture(scope="module")
def bert(make):
    return make("bert").model


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(heads=BAD)
def test_any_input_is_pruned_or_refused_plainly(bert, heads):
    try:
        pruned = prune(bert, heads)
    except (TypeError, ValueError) as error:
        assert str(error) and "size of tensor" not in str(error)
    else:
        assert real(pruned, batch(bert)).isfinite().all()


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=st.sampled_from(PRUNED), data=st.data())
def test_any_set_of_heads_in_any_number_of_rounds(make, name, data):
    model = CACHE.setdefault(name, make(name).model)
    heads, inputs = heads_of(model), batch(model)
    rounds = data.draw(st.lists(st.lists(st.sampled_from(heads), max_size=8), max_size=3))
    pruned = model
    for each in rounds:
        pruned = prune(pruned, each)
    gone = {head for each in rounds for head in each}
    assert heads_of(pruned) == [head for head in heads if head not in gone]
    with gated(model, shut(gone)):
        assert near(real(pruned, inputs), real(model, inputs))


CACHE: dict[str, nn.Module] = {}


# --- maps of pruned models

TEXTS = ["The cat sat on the mat.", "A dog ran."]


@pytest.mark.parametrize("name", PRUNED)
def test_maps_of_a_pruned_model_have_original_numbers_and_nan_where_heads_were_removed(make, name):
    family = make(name)
    heads = [Head(0, 1), Head(1, 0)] + [Head(1, head) for head in range(8)]
    kind, n_heads = KINDS[name][0], len([head for head in heads_of(family.model) if head[::2] == (0, KINDS[name][0])])
    gone = {Head(head.layer, head.head, kind) for head in heads if head.head < n_heads}
    pruned = prune(family.model, gone)
    found = attention_maps(pruned, family.tokenizer, TEXTS[0], family.target)[kind]
    whole = attention_maps(family.model, family.tokenizer, TEXTS[0], family.target)[kind]
    assert found.weights.shape == whole.weights.shape and found.groups == whole.groups
    for layer, head in ((layer, head) for layer in found.layers for head in range(n_heads)):
        weights = found.weights[layer, head]
        if Head(layer, head, kind) in gone:
            assert weights.isnan().all()
        else:
            assert torch.allclose(weights.sum(-1), torch.ones(len(weights)), atol=1e-5)
            assert layer or torch.allclose(weights, whole.weights[layer, head], atol=1e-5)
    assert any(f"{len(gone)} heads" in notice for notice in found.notices)
    assert found.words().weights[1].isnan().all() and not found.words().weights[0, 0].isnan().any()
    if not all(found.special_queries):
        assert found.without_special().weights[1].isnan().all()
    only = attention_maps(pruned, family.tokenizer, TEXTS[0], family.target, layers={kind: [1]})
    assert only[kind].weights.isnan().all()


def test_rollout_passes_by_removed_heads(make):
    family = make("bert")
    gone = [Head(0, 1), *(Head(1, head) for head in range(4))]
    maps = attention_maps(prune(family.model, gone), family.tokenizer, TEXTS[0])["encoder"]
    rolled = rollout(maps)
    assert torch.allclose(rolled.sum(-1), torch.ones(rolled.shape[:2]), atol=1e-5)
    assert torch.allclose(rolled[1], rolled[0])  # a layer without heads mixes nothing
    expected = 0.5 * torch.eye(rolled.shape[-1]) + 0.5 * maps.weights[0, [0, 2, 3]].mean(0)
    assert torch.allclose(rolled[0], expected, atol=1e-6)


@pytest.mark.parametrize("special", ["keep", "drop"])
@pytest.mark.parametrize("name", PRUNED)
def test_statistics_of_a_pruned_model_have_a_row_a_head_and_nan_where_heads_were_removed(make, name, special):
    family = make(name)
    kind = KINDS[name][0]
    gone = [head for head in heads_of(family.model) if head.kind == kind and (head.layer == 1 or head.head == 1)]
    targets = [families.TARGET] * 2 if family.target else None
    found = head_statistics(prune(family.model, gone), family.tokenizer, TEXTS, targets, special=special)
    whole = head_statistics(family.model, family.tokenizer, TEXTS, targets, special=special)
    place = ["kind", "layer", "head", "group"]
    assert found[place].equals(whole[place])
    absent = [Head(row.layer, row.head, row.kind) in gone for row in found.itertuples()]
    values = found.drop(columns=[*place, "tokens"])
    assert values[absent].isna().all(axis=None) and (found["tokens"][absent] == 0).all()
    there = found[[not each for each in absent]]
    assert there["entropy"].notna().all() and (there["tokens"] > 0).all()
    first = there[(there["layer"] == 0) & (there["kind"] == kind)]
    assert first["entropy"].to_numpy() == pytest.approx(whole.loc[first.index, "entropy"].to_numpy(), abs=1e-5)
