"""Gates and ablations of heads: their effect, their limits, and that nothing of them stays behind."""

from __future__ import annotations

import copy
import re

import families
import pytest
import torch
from families import real
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn
from transformers import BertConfig, BertLMHeadModel, BertModel, EncoderDecoderModel, XLMConfig, XLMModel

from utils.architectures import LAYOUTS, attentions, is_conv1d, mask_of
from utils.attention import MultiHeadAttention
from utils.heads import Head, ablated, gated, head_outputs, heads_of, resolve

TEXTS = ["The cat sat on the mat.", "A dog."]
BACKENDS = ("eager", "sdpa")
IDS = torch.ones(1, 3, dtype=torch.long)
CASES = [(name, kind) for name, kinds in families.KINDS.items() for kind in kinds]


def batch_of(family: families.Family, texts: list[str] = TEXTS) -> dict[str, torch.Tensor]:
    return families.batch_of(family, texts)


def without_columns(model: nn.Module, head: Head) -> nn.Module:
    """A copy whose output projection has zeros in the columns of a head, found by hand."""
    other = copy.deepcopy(model)
    each = next(a for a in attentions(other) if (a.kind, a.layer) == (head.kind, head.layer))
    weight = each.output.weight.data
    columns = slice(head.head * each.size, (head.head + 1) * each.size)
    if is_conv1d(each.output):
        weight[columns] = 0
    else:
        weight[:, columns] = 0
    return other


@pytest.mark.parametrize(("name", "kind"), CASES)
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_gate_of_zero_has_its_full_effect(make, name, kind, backend):
    family = make(name)
    family.model.set_attn_implementation(backend)
    batch = batch_of(family)
    full = real(family.model, batch)
    for head in [head for head in heads_of(family.model) if head.kind == kind]:
        with gated(family.model, {head: 0.0}):
            without = real(family.model, batch)
        assert torch.allclose(without, real(without_columns(family.model, head), batch), atol=1e-5), head
        assert (without - full).abs().max() > 1e-4, head


def test_the_models_are_bitwise_themselves_afterwards(family):
    batch, before = batch_of(family), families.state(family.model)
    full = real(family.model, batch)
    heads = heads_of(family.model)
    with gated(family.model, dict.fromkeys(heads, 0.5)), ablated(family.model, heads[:2], "mean", [batch]):
        assert not torch.equal(real(family.model, batch), full)
    families.same(before, families.state(family.model))
    assert torch.equal(real(family.model, batch), full)


def test_an_exception_inside_nested_scopes_leaves_nothing_and_other_hooks_stay(tiny_bert):
    model, calls = tiny_bert.model, []
    handle = attentions(model)[0].output.register_forward_pre_hook(lambda *_: calls.append(1))
    before, batch = families.state(model), batch_of(tiny_bert)
    with pytest.raises(RuntimeError, match="user"), gated(model, {Head(0, 0): 0.0}), ablated(model, [Head(1, 1)]):
        raise RuntimeError("user")
    families.same(before, families.state(model))
    real(model, batch)
    assert calls == [1]
    handle.remove()


def test_nested_gates_multiply(tiny_bert):
    model, batch, head = tiny_bert.model, batch_of(tiny_bert), Head(1, 2)
    with gated(model, {head: 0.5}), gated(model, {head: 0.5}):
        nested = real(model, batch)
    with gated(model, {head: 0.25}):
        assert torch.allclose(nested, real(model, batch), atol=1e-6)


def test_gates_come_as_tensor_as_kinds_or_as_heads(make):
    family = make("bart")
    batch, gate = batch_of(family), torch.ones(2, 2)
    gate[1, 0] = 0.3
    with gated(family.model, {"cross": gate}):
        by_kind = real(family.model, batch)
    with gated(family.model, {Head(1, 0, "cross"): 0.3}):
        assert torch.equal(by_kind, real(family.model, batch))
    bert = make("bert")
    gate = torch.rand(3, 4)
    with gated(bert.model, gate):
        by_tensor = real(bert.model, batch_of(bert))
    with gated(bert.model, {(layer, head): gate[layer, head] for layer in range(3) for head in range(4)}):
        assert torch.equal(by_tensor, real(bert.model, batch_of(bert)))


def test_gates_of_each_text_act_on_that_text_alone(tiny_bert):
    model, batch = tiny_bert.model, batch_of(tiny_bert)
    gates = torch.ones(2, 3, 4)
    gates[1] = 0
    lengths = batch["attention_mask"].sum(1).tolist()
    full = real(model, batch).split(lengths)
    with gated(model, gates):
        first, second = real(model, batch).split(lengths)
    with gated(model, torch.zeros(3, 4)):
        assert torch.allclose(second, real(model, batch).split(lengths)[1], atol=1e-6)
    assert torch.allclose(first, full[0], atol=1e-6)
    with (
        pytest.raises(ValueError, match="gates are for 3 texts, but the batch has 2"),
        gated(model, torch.ones(3, 3, 4)),
    ):
        real(model, batch)


def test_gates_take_gradients(family):
    sizes = {}
    for each in attentions(family.model):
        sizes[each.kind] = (each.layer + 1, each.all_heads)
    gates = {kind: torch.ones(size, requires_grad=True) for kind, size in sizes.items()}
    with gated(family.model, gates):
        outputs = family.model(**batch_of(family))
    (outputs.logits if hasattr(outputs, "logits") else outputs.last_hidden_state)[0, 0].norm().backward()
    for kind, gate in gates.items():
        assert gate.grad.isfinite().all() and (gate.grad != 0).any(), kind


def test_all_heads_of_a_layer_and_of_a_model_leave_finite_outputs(family):
    heads = heads_of(family.model)
    for chosen in ([head for head in heads if head.layer == 0], heads, heads + heads):
        with ablated(family.model, chosen):
            assert real(family.model, batch_of(family)).isfinite().all()


def test_the_mean_is_that_of_real_tokens_only(tiny_bert):
    model, head = tiny_bert.model, Head(1, 2)
    seen = []
    handle = model.encoder.layer[1].attention.output.dense.register_forward_pre_hook(
        lambda _, args: seen.append(args[0])
    )
    for text in TEXTS:
        real(model, batch_of(tiny_bert, [text]))
    handle.remove()
    mean = torch.cat([each[0] for each in seen]).mean(0)[16:24]
    other, batch = without_columns(model, Head(1, 2, "encoder")), batch_of(tiny_bert)
    weight = model.encoder.layer[1].attention.output.dense.weight[:, 16:24]
    other.encoder.layer[1].attention.output.dense.bias.data += weight.detach() @ mean
    with ablated(model, [head], "mean", [batch]):
        assert torch.allclose(real(model, batch), real(other, batch), atol=1e-5)


def test_a_mean_over_constant_outputs_changes_nothing(tiny_bert):
    """The null case: a head that says the same everywhere is replaced by itself."""
    model, batch = copy.deepcopy(tiny_bert.model), batch_of(tiny_bert)
    model.encoder.layer[1].attention.self.value.weight.data.zero_()
    full = real(model, batch)
    for mode in ("mean", "resample"):
        with ablated(model, [Head(1, 0), Head(1, 3)], mode, [batch]):
            assert torch.allclose(full, real(model, batch), atol=1e-5), mode
    with ablated(model, [Head(1, 0)]):
        assert not torch.allclose(full, real(model, batch), atol=1e-3)


def test_resampling_draws_real_outputs_and_repeats_with_its_seed(tiny_bert):
    model, batch = tiny_bert.model, batch_of(tiny_bert)
    name = "encoder.layer.0.attention"
    pool, seen = head_outputs(model, [batch])[name], []
    last = attentions(model)[0].output

    def run(seed: int) -> torch.Tensor:
        with ablated(model, [Head(0, 1)], "resample", batch, seed=seed):
            handle = last.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
            values = real(model, batch)
            handle.remove()
        return values

    assert torch.equal(run(0), run(0)) and not torch.equal(run(0), run(1))
    drawn = seen[0].unflatten(-1, (4, 8))[..., 1, :].flatten(0, 1)
    assert all((pool[:, 1] == row).all(-1).any() for row in drawn)


def test_a_reference_is_read_without_gates_and_in_evaluation_mode(tiny_bert):
    model, batch = tiny_bert.model, batch_of(tiny_bert)
    plain = head_outputs(model, [batch])
    model.train()
    with gated(model, torch.zeros(3, 4)):
        gated_too = head_outputs(model, [batch])
    assert all(torch.equal(plain[name], gated_too[name]) for name in plain)
    assert all(module.training for module in model.modules())


def test_a_head_has_its_key_value_head(make):
    """Case 21: key/value head 1 of 2 serves query heads 4 to 7."""
    (first, *_), model = attentions(make("llama").model), make("llama").model
    assert [head for head in first.heads if first.groups[head] == 1] == [4, 5, 6, 7]
    with pytest.raises(ValueError, match="head 8 does not exist: layer 0 of the decoder has heads 0 to 7"):
        resolve(model, [Head(0, 8)])


def test_head_mask_alone_would_do_nothing(tiny_bert):
    """Case 14: the old argument is swallowed without an error; this is why gates exist."""
    batch = batch_of(tiny_bert)
    assert torch.equal(real(tiny_bert.model, batch), real(tiny_bert.model, batch | {"head_mask": torch.zeros(3, 4)}))
    assert not hasattr(tiny_bert.model, "prune_heads")


def test_a_bare_attention_is_a_model_too():
    attention = MultiHeadAttention(16, 4)
    x = torch.randn(2, 5, 16)
    assert heads_of(attention) == [Head(0, head, "encoder") for head in range(4)]
    with ablated(attention, heads_of(attention)):
        assert torch.allclose(attention(x)[0], attention.output.bias.expand(2, 5, 16))
    with ablated(attention, [Head(0, 1)], "mean", [{"x": x}]):
        assert attention(x)[0].shape == x.shape


def test_values_and_output_blocks_rebuild_what_the_attention_adds(family):
    """The pieces that other modules rely on: Σ z_h W_O^h + b = output(z)."""
    for each in attentions(family.model):
        z = torch.randn(3, len(each.heads) * each.size)
        rebuilt = torch.einsum("nhd,hdw->nw", each.split(z), each.output_blocks())
        bias = getattr(each.output, "bias", None)
        assert torch.allclose(rebuilt + (0 if bias is None else bias), each.output(z), atol=1e-5), each.name


def test_every_layout_is_met_by_a_tested_model(make):
    met = {type(each.module).__name__ for name in families.FAMILIES for each in attentions(make(name).model)}
    assert met == set(LAYOUTS)


@pytest.mark.parametrize(
    ("model", "name"),
    [
        (nn.Linear(2, 2), "Linear has no attention that is known"),
        (nn.TransformerEncoderLayer(8, 2), "TransformerEncoderLayer has the attention MultiheadAttention"),
    ],
)
def test_a_strange_architecture_is_refused_by_name(model, name):
    with pytest.raises(ValueError, match=name) as error:
        heads_of(model)
    assert "supported are BERT" in str(error.value) and "LAYOUTS" in str(error.value)


def test_an_attention_with_the_name_of_a_known_one_and_other_parts_is_refused():
    sizes = dict(vocab_size=50, emb_dim=16, n_layers=2, n_heads=2)
    with pytest.raises(
        ValueError, match=r"XLMModel has the attention transformers\.\S+\.MultiHeadAttention: supported"
    ):
        heads_of(XLMModel(XLMConfig(**sizes)))


class Around(nn.Module):
    """A model as a part of another, without a config of its own."""

    def __init__(self, **parts: nn.Module):
        super().__init__()
        self.parts = nn.ModuleDict(parts)

    def forward(self, **batch):
        return next(iter(self.parts.values()))(**batch)


@pytest.mark.parametrize("name", families.FAMILIES)
def test_heads_keep_their_kind_in_a_model_around_the_model(make, name):
    family = make(name)
    around, heads = Around(cross_encoder=family.model), heads_of(family.model)
    assert heads_of(around) == heads
    batch = batch_of(family)
    with gated(around, {heads[-1]: 0.0}):
        expected = real(family.model, batch)
        assert torch.equal(real(around, batch), expected)
    if family.model.config.is_encoder_decoder:  # the mask of the target goes with the target's attentions
        pools = head_outputs(around, [batch]), head_outputs(family.model, [batch])
        assert all(torch.equal(pools[0][f"parts.cross_encoder.{key}"], each) for key, each in pools[1].items())


@pytest.mark.parametrize("name", ["bart", "marian", "t5", "translator"])
def test_the_halves_of_an_encoder_decoder_have_their_own_kinds(make, name):
    model = make(name).model
    decoder = getattr(model, "decoder", None) or model.get_decoder()
    assert {head.kind for head in heads_of(model.get_encoder())} == {"encoder"}
    assert {head.kind for head in heads_of(decoder)} == {"decoder", "cross"}


def test_an_encoder_decoder_of_two_berts_has_three_kinds():
    sizes = dict(vocab_size=50, hidden_size=16, num_attention_heads=4, intermediate_size=16)
    encoder = BertModel(BertConfig(**sizes, num_hidden_layers=2))
    config = BertConfig(**sizes, num_hidden_layers=1, is_decoder=True, add_cross_attention=True)
    model = EncoderDecoderModel(encoder=encoder, decoder=BertLMHeadModel(config))
    assert [head.kind for head in heads_of(model)] == ["encoder"] * 8 + ["decoder"] * 4 + ["cross"] * 4
    assert [each.of_target for each in attentions(model)] == [False, False, True, True]


def test_labels_say_where_a_target_ends_not_where_it_is_silent(make):
    """Positions before the last label are read, whatever their own label; those after it are padding."""
    found = {each.kind: each for each in attentions(make("bart").model)}
    labels = torch.tensor([[-100, 7, -100, 8, -100], [5, 6, 7, 8, 9]])
    expected = torch.tensor([[True, True, True, True, False], [True] * 5])
    assert torch.equal(mask_of(found["cross"], {"labels": labels}), expected)
    assert mask_of(found["encoder"], {"labels": labels}) is None
    assert mask_of(found["decoder"], {"labels": torch.tensor([1, 0])}) is None  # classes of texts


def test_a_copy_made_within_a_scope_is_whole_when_the_scope_ends(tiny_bert):
    model, batch = tiny_bert.model, batch_of(tiny_bert)
    full = real(model, batch)
    with gated(model, {Head(0, 0): 0.0}), ablated(model, [Head(1, 1)]):
        twin = copy.deepcopy(model)
        assert torch.equal(real(twin, batch), real(model, batch))
    assert torch.equal(real(twin, batch), full)


def test_a_model_that_is_half_strange_is_refused(tiny_bert):
    mixed = nn.ModuleDict({"known": tiny_bert.model, "strange": nn.MultiheadAttention(8, 2)})
    with pytest.raises(ValueError, match="MultiheadAttention"):
        heads_of(mixed)


@pytest.mark.parametrize(
    ("head", "message"),
    [
        (Head(0, -1), "head -1 does not exist: layer 0 of the encoder has heads 0 to 3"),
        (Head(0, 4), "head 4 does not exist: layer 0 of the encoder has heads 0 to 3"),
        (Head(3, 0), "layer 3 does not exist: the encoder has layers 0 to 2"),
        (Head(0, 1.5), "a head must be a whole number, got 1.5"),
        (Head(0, True), "a head must be a whole number, got True"),
        (Head(0, 0, "cross"), "there is no 'cross' attention: the model has encoder"),
        ((0,), r"a head is Head(layer, head) or Head(layer, head, kind), got (0,)"),
        (7, "a head is Head(layer, head)"),
    ],
)
def test_a_head_that_does_not_exist_is_refused_with_the_range(tiny_bert, head, message):
    for use in (lambda: resolve(tiny_bert.model, [head]), lambda: gated(tiny_bert.model, {head: 0.0}).__enter__()):
        with pytest.raises((TypeError, ValueError), match=re.escape(message)):
            use()


def test_duplicates_collapse_and_the_kind_is_filled_in(tiny_bert):
    assert resolve(tiny_bert.model, [(1, 1), Head(1, 1), Head(1, 1, "encoder")]) == [Head(1, 1, "encoder")]


def test_a_head_without_a_kind_is_refused_where_there_are_three(make):
    with pytest.raises(ValueError, match="names no kind, but the model has encoder, decoder, cross"):
        resolve(make("bart").model, [Head(0, 0)])


@pytest.mark.parametrize(
    ("gates", "message"),
    [
        (torch.ones(3, 5), "must have the shape (3, 4) (layers, heads), or (batch, *(3, 4)), got (3, 5)"),
        (torch.full((3, 4), torch.nan), "must be finite"),
        ({"cross": torch.ones(3, 4)}, "the model has no 'cross' attention: it has encoder"),
        ({"encoder": 0}, "must be a tensor of the shape (3, 4)"),
        ({Head(0, 0): float("nan")}, "must be a finite number"),
        ({Head(0, 0): torch.tensor(float("inf"))}, "must be a finite number"),
        ({Head(0, 0): torch.tensor(1j)}, "must be a finite number"),
        ({Head(0, 0): 1e308}, "must be a finite number"),
        (torch.ones(3, 4, dtype=torch.complex64), "must be finite numbers"),
        ({Head(0, 0): "0"}, "must be a finite number"),
        ({Head(0, 0): torch.ones(2)}, "must be one number"),
        ([[1.0] * 4] * 3, "gates must be a tensor (layers, heads) or a mapping, got list"),
    ],
)
def test_gates_that_do_not_fit_are_refused(tiny_bert, gates, message):
    with pytest.raises((TypeError, ValueError), match=re.escape(message)), gated(tiny_bert.model, gates):
        pass


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(mode="median"), "mode must be one of zero, mean, resample, got 'median'"),
        (dict(mode="mean"), "needs reference"),
        (dict(mode="zero", reference=[{}]), "uses no reference"),
        (dict(mode="mean", reference=[]), "there is no batch"),
        (dict(mode="mean", reference=["a text"]), "a batch must be a dictionary of the model's inputs, got str"),
        (dict(mode="mean", reference="a text"), "batches must be a list of dictionaries"),
        (dict(mode="mean", reference=[{"labels": 3}]), "batch 0 holds no text"),
        (dict(mode="mean", reference=[{"input_ids": [[1, 2]]}]), "batch 0 holds no text"),
        (dict(mode="mean", reference=[{"input_ids": torch.full((1, 3), 9999)}]), "BertModel could not read batch 0"),
        (
            dict(mode="mean", reference=[dict(input_ids=IDS, attention_mask=torch.ones(1, 4))]),
            r"has the shape \(1, 4\)",
        ),
        (dict(mode="resample", reference=[{"input_ids": IDS}], seed="a"), "seed must be a whole number"),
        (dict(mode="resample", reference=[{"input_ids": IDS}], seed=-1), "seed must be from 0"),
    ],
)
def test_an_ablation_that_cannot_be_is_refused(tiny_bert, arguments, message):
    with pytest.raises((TypeError, ValueError), match=message), ablated(tiny_bert.model, [Head(0, 0)], **arguments):
        pass


def test_a_reference_of_padding_alone_is_refused(tiny_bert):
    batch = batch_of(tiny_bert)
    batch["attention_mask"] = torch.zeros_like(batch["attention_mask"])
    with pytest.raises(ValueError, match="no real token"), ablated(tiny_bert.model, [(0, 0)], "mean", [batch]):
        pass


ODD = st.one_of(st.none(), st.booleans(), st.integers(-3, 9), st.floats(), st.text(max_size=3), st.binary(max_size=2))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(heads=st.one_of(ODD, st.lists(st.one_of(ODD, st.tuples(ODD), st.tuples(ODD, ODD), st.tuples(ODD, ODD, ODD)))))
def test_any_heads_are_resolved_or_refused_clearly(tiny_bert, heads):
    try:
        known = resolve(tiny_bert.model, heads)
    except (TypeError, ValueError) as error:
        assert any(word in str(error) for word in ("head", "layer", "attention"))
    else:
        assert set(known) <= set(heads_of(tiny_bert.model))


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(shape=st.lists(st.integers(1, 5), max_size=4), fill=st.floats(width=32))
def test_a_tensor_of_gates_fits_or_is_refused_clearly(tiny_bert, shape, fill):
    batch = batch_of(tiny_bert)
    try:
        with gated(tiny_bert.model, torch.full(shape, fill)):
            values = real(tiny_bert.model, batch)
    except ValueError as error:
        assert "gates" in str(error)
    else:
        assert shape[-2:] == [3, 4] and values.shape == real(tiny_bert.model, batch).shape
