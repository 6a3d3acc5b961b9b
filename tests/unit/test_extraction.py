"""Attention maps: right in any mode, and without a trace in the model."""

import copy
import logging
import threading

import pytest
import torch
from families import SENTENCE, TARGET, same, state
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn
from transformers import BartModel, BertConfig, BertForMaskedLM, BertLMHeadModel, GPT2ForSequenceClassification

from utils.attention import AttentionMaps, attention_maps, head_statistics, rollout
from utils.attention.inputs import longest


def check(maps: dict[str, AttentionMaps]) -> None:
    for kind, each in maps.items():
        assert each.kind == kind
        assert each.weights.dtype == torch.float32
        assert not each.weights.requires_grad
        assert (each.weights.sum(-1) - 1).abs().max() <= 1e-5
        assert each.weights.shape[2:] == (len(each.queries), len(each.keys))
        assert len(each.query_words) == len(each.queries) == len(each.special_queries)
        assert len(each.key_words) == len(each.keys) == len(each.special_keys)
        assert not any("pad" in label.lower() for label in each.queries + each.keys)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("backend", ["sdpa", "eager"])
@pytest.mark.parametrize("train", [True, False])
def test_rows_sum_to_one_in_any_mode_and_nothing_changes(family, backend, train, dtype, capfd):
    family.model.set_attn_implementation(backend)
    family.model.to(dtype).train(train)
    if train:
        next(family.model.children()).eval()  # the modes of modules differ
    before = state(family.model)
    first = attention_maps(family.model, family.tokenizer, SENTENCE, family.target)
    second = attention_maps(family.model, family.tokenizer, SENTENCE, family.target)
    check(first)
    for kind, maps in first.items():
        assert torch.equal(maps.weights, second[kind].weights)
    same(before, state(family.model))
    assert capfd.readouterr() == ("", "")


def test_an_exception_inside_leaves_the_model_as_it_was(family):
    family.model.to(torch.bfloat16).train()

    def fail(*_):
        raise KeyError("from the caller's own hook")

    handle = list(family.model.modules())[-1].register_forward_hook(fail)
    before = state(family.model)
    with pytest.raises(KeyError, match="own hook"):
        attention_maps(family.model, family.tokenizer, SENTENCE, family.target)
    same(before, state(family.model))
    handle.remove()


def test_the_callers_hooks_run_and_stay(tiny_bert):
    seen = []
    module = tiny_bert.model.encoder.layer[1].attention.self
    module.register_forward_hook(lambda *call: seen.append(call[2][1].shape))
    maps = attention_maps(tiny_bert.model, tiny_bert.tokenizer, SENTENCE, layers=[0])
    assert maps["encoder"].layers == [0]
    assert seen[-1][-1] == len(maps["encoder"].keys)  # the hook saw the weights of a layer that is not kept
    assert len(module._forward_hooks) == 1


def test_hooks_that_transformers_has_installed_stay_installed(tiny_bert):
    tiny_bert.model.set_attn_implementation("eager")
    inputs = tiny_bert.tokenizer(SENTENCE, return_tensors="pt")
    expected = tiny_bert.model(**inputs, output_attentions=True).attentions
    before = state(tiny_bert.model)
    maps = attention_maps(tiny_bert.model, tiny_bert.tokenizer, SENTENCE, layers=[2])["encoder"]
    assert torch.equal(maps.weights[0], expected[2][0])
    same(before, state(tiny_bert.model))


def test_maps_are_those_of_the_models_own_eager_pass(family):
    inputs = family.tokenizer(SENTENCE, return_tensors="pt")
    if family.target:
        labels = family.tokenizer(text_target=TARGET, return_tensors="pt").input_ids
        inputs["decoder_input_ids"] = family.model.prepare_decoder_input_ids_from_labels(labels=labels)
    inputs.pop("token_type_ids", None)
    maps = attention_maps(family.model, family.tokenizer, SENTENCE, family.target)
    family.model.set_attn_implementation("eager")
    with torch.no_grad():
        outputs = family.model(**inputs, output_attentions=True)
    if family.target:
        expected = {k: outputs[f"{k}_attentions"] for k in ("encoder", "decoder", "cross")}
    else:
        expected = {next(iter(maps)): outputs.attentions}
    assert set(expected) == set(maps)
    for kind, layers in expected.items():
        assert (maps[kind].weights - torch.cat(layers)).abs().max() < 1e-6


def test_causal_maps_are_zero_above_the_diagonal_and_logits_do_not_change(make):
    for name in ("gpt2", "llama", "bart", "marian", "t5"):
        family = make(name)
        inputs = family.tokenizer(SENTENCE, return_tensors="pt")
        inputs.pop("token_type_ids", None)
        extra = {"decoder_input_ids": inputs["input_ids"]} if family.target else {}
        with torch.no_grad():
            before = family.model(**inputs, **extra).logits
        maps = attention_maps(family.model, family.tokenizer, SENTENCE, family.target)
        with torch.no_grad():
            after = family.model(**inputs, **extra).logits
        assert torch.equal(before, after)
        assert (maps["decoder"].weights.triu(1) == 0).all()
        assert "encoder" not in maps or maps["encoder"].weights.triu(1).any()


def test_encoder_and_decoder_may_differ_in_depth_and_heads(make):
    for name in ("bart", "marian"):
        family = make(name)
        maps = attention_maps(family.model, family.tokenizer, SENTENCE, TARGET)
        n, m = len(maps["encoder"].keys), len(maps["decoder"].keys)
        assert n != m
        shapes = {kind: tuple(each.weights.shape) for kind, each in maps.items()}
        assert shapes == {"encoder": (3, 4, n, n), "decoder": (2, 2, m, m), "cross": (2, 2, m, n)}
        assert maps["cross"].queries == maps["decoder"].queries
        assert maps["cross"].keys == maps["encoder"].keys


def test_the_decoder_reads_a_start_token_and_then_the_target(make):
    assert attention_maps(*make("marian")[1:], SENTENCE, "at")["decoder"].queries[0] == "[start]"
    assert attention_maps(*make("bart")[1:], SENTENCE, "at")["decoder"].queries[:2] == ["</s>", "<s>"]
    for name in ("bart", "marian", "t5"):
        decoder = attention_maps(*make(name)[1:], SENTENCE, TARGET)["decoder"]
        assert "".join(decoder.without_special().queries).replace("␣", "") == TARGET.replace(" ", "")


def test_without_a_target_the_model_writes_one_or_says_what_to_do(make, capfd):
    family = make("t5")
    before = state(family.model)
    maps = attention_maps(family.model, family.tokenizer, SENTENCE)
    check(maps)
    assert any("the model itself wrote" in notice for notice in maps["cross"].notices)
    assert maps["encoder"].notices == []
    same(before, state(family.model))
    bart = make("bart")
    with pytest.raises(ValueError, match='pass target="…"'):
        attention_maps(BartModel(bart.model.config), bart.tokenizer, SENTENCE)
    assert capfd.readouterr() == ("", "")


def test_a_target_for_a_model_without_a_decoder_is_refused(tiny_bert, make):
    for family in (tiny_bert, make("gpt2")):
        with pytest.raises(ValueError, match="leave target out"):
            attention_maps(family.model, family.tokenizer, SENTENCE, TARGET)


def test_query_heads_are_reported_with_their_key_value_group(make):
    llama = make("llama")
    maps = attention_maps(llama.model, llama.tokenizer, SENTENCE)["decoder"]
    assert maps.weights.shape[1] == 8
    assert maps.groups == [0, 0, 0, 0, 1, 1, 1, 1]
    assert head_statistics(llama.model, llama.tokenizer, [SENTENCE])["group"].tolist() == maps.groups * 2
    bert = make("bert")
    assert attention_maps(bert.model, bert.tokenizer, SENTENCE)["encoder"].groups == [0, 1, 2, 3]


def test_layers_can_be_chosen_and_duplicates_collapse(family):
    whole = attention_maps(family.model, family.tokenizer, SENTENCE, family.target)
    part = attention_maps(family.model, family.tokenizer, SENTENCE, family.target, layers=[1, 0, 1])
    for kind, maps in part.items():
        assert maps.layers == [0, 1]
        assert torch.equal(maps.weights, whole[kind].weights[:2])


def test_layers_that_are_not_kept_are_not_held_in_memory(family, monkeypatch):
    from utils.attention import reading

    sizes = []
    original = reading.read

    def spy(model, inputs, wanted=None, stack="only"):
        found = original(model, inputs, wanted, stack)
        sizes.append({kind: [each.numel() for each in layers] for kind, layers in found.items()})
        return found

    monkeypatch.setattr(reading, "read", spy)
    maps = attention_maps(family.model, family.tokenizer, SENTENCE, family.target, layers=[1])
    for kind, layers in sizes[-1].items():
        assert maps[kind].layers == [1]
        assert [size > 0 for size in layers] == [layer == 1 for layer in range(len(layers))]


def test_layers_by_kind(make):
    family = make("bart")
    maps = attention_maps(family.model, family.tokenizer, SENTENCE, TARGET, layers={"encoder": [2], "cross": [0, 1]})
    assert {kind: each.layers for kind, each in maps.items()} == {"encoder": [2], "cross": [0, 1]}
    with pytest.raises(ValueError, match="layer 2 does not exist: the decoder has layers 0 to 1"):
        attention_maps(family.model, family.tokenizer, SENTENCE, TARGET, layers=[2])


@pytest.mark.parametrize(
    "layers, error, words",
    [
        ([-1], ValueError, "layer -1 does not exist: the encoder has layers 0 to 2"),
        ([3], ValueError, "layer 3 does not exist"),
        ([1.5], TypeError, "whole number, got 1.5"),
        ([True], TypeError, "whole number, got True"),
        (["0"], TypeError, "whole number, got '0'"),
        ([], ValueError, "layers is empty"),
        (1, TypeError, "list of layer numbers, got 1"),
        ("01", TypeError, "list of layer numbers"),
        ({"decoder": [0]}, ValueError, "this model has encoder"),
        ({}, ValueError, "this model has encoder"),
    ],
)
def test_layers_that_do_not_exist_are_refused_with_the_valid_range(tiny_bert, layers, error, words):
    with pytest.raises(error, match=words):
        attention_maps(tiny_bert.model, tiny_bert.tokenizer, SENTENCE, layers=layers)


def test_maps_above_the_cap_are_refused_before_they_are_computed(make):
    family = make("bert", num_hidden_layers=12, hidden_size=24, num_attention_heads=12, max_position_embeddings=2048)
    tokenizer = copy.deepcopy(family.tokenizer)
    tokenizer.model_max_length = 2000
    with pytest.raises(
        ValueError, match=r"2,000 tokens need 2\.3 GB.*max_bytes = 1\.1 GB: take fewer layers.*layers=\["
    ):
        attention_maps(family.model, tokenizer, "the " * 2500)
    with pytest.raises(ValueError, match="one layer alone is too large"):
        attention_maps(family.model, tokenizer, "the " * 2500, max_bytes=10**6)
    with pytest.raises(ValueError, match="need .* more than max_bytes"):
        head_statistics(family.model, tokenizer, ["the " * 2500])
    small = attention_maps(family.model, tokenizer, SENTENCE, max_bytes=12 * 12 * 12 * 12 * 4)["encoder"]
    assert small.weights.numel() == 12 * 12 * 12 * 12


class Silent(BertForMaskedLM):
    """A model whose forward pass can be made to return wrong attentions."""

    wrong = staticmethod(lambda attentions: None)

    def forward(self, *args, **kwargs):
        outputs = super().forward(*args, **kwargs)
        outputs["attentions"] = self.wrong(outputs.attentions)
        return outputs


@pytest.mark.parametrize(
    "wrong, words",
    [
        (lambda found: None, 'returned no attention weights: load the model with attn_implementation="eager"'),
        (lambda found: (), "returned no attention weights"),
        (lambda found: (None, *found[1:]), "layer 0.*NoneType instead of attention weights"),
        (
            lambda found: tuple(each.mean(1) for each in found),
            r"shape \(1, 8, 8\), expected \(batch, heads, queries, k",
        ),
        (lambda found: tuple(each[..., :3] for each in found), r"shape \(1, 4, 8, 3\), expected"),
        (lambda found: tuple(each.transpose(0, 1) for each in found), r"expected \(batch, heads, queries, keys\)"),
        (lambda found: tuple(each * 0.5 for each in found), "sum to 0.500 to 0.500 instead of 1"),
        (lambda found: tuple(each * torch.nan for each in found), "not finite"),
    ],
)
def test_a_model_without_usable_weights_is_refused_with_the_fix(tiny_bert, wrong, words):
    model = Silent(tiny_bert.model.config).eval()
    model.wrong = wrong
    before = state(model)
    with pytest.raises(ValueError, match=words):
        attention_maps(model, tiny_bert.tokenizer, SENTENCE)
    same(before, state(model))


def test_what_is_no_model_or_tokenizer_is_refused(tiny_bert):
    for model in (None, "minilm", tiny_bert.tokenizer, nn.Linear(2, 2)):
        with pytest.raises(TypeError, match="model must be a transformers model"):
            attention_maps(model, tiny_bert.tokenizer, SENTENCE)
    sentence_transformer = type("SentenceTransformer", (), {})()
    with pytest.raises(TypeError, match=r"pass model\[0\].auto_model"):
        attention_maps(sentence_transformer, tiny_bert.tokenizer, SENTENCE)
    for tokenizer in (None, "minilm", tiny_bert.model):
        with pytest.raises(TypeError, match="tokenizer must be a transformers tokenizer"):
            attention_maps(tiny_bert.model, tokenizer, SENTENCE)


def test_tokens_that_the_model_does_not_know_are_refused(make, tiny_bert):
    with pytest.raises(ValueError, match="load model and tokenizer together"):
        attention_maps(make("bert", vocab_size=20).model, tiny_bert.tokenizer, SENTENCE)


def test_models_with_other_heads_are_read_as_well(make, tiny_bert):
    gpt2 = make("gpt2")
    model = GPT2ForSequenceClassification(copy.deepcopy(gpt2.model.config)).eval()
    check(attention_maps(model, gpt2.tokenizer, SENTENCE))
    config = BertConfig(**(tiny_bert.model.config.to_dict() | {"is_decoder": True}))
    causal = attention_maps(BertLMHeadModel(config), tiny_bert.tokenizer, SENTENCE)
    assert list(causal) == ["decoder"]
    assert (causal["decoder"].weights.triu(1) == 0).all()


def test_autocast_around_the_call_does_not_lower_the_precision(tiny_bert):
    expected = attention_maps(tiny_bert.model, tiny_bert.tokenizer, SENTENCE)["encoder"].weights
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = attention_maps(tiny_bert.model, tiny_bert.tokenizer, SENTENCE)["encoder"].weights
    assert torch.equal(expected, found)


AWKWARD = {
    "empty": "",
    "blank": " \n\t ",
    "one letter": "a",
    "emoji": "🙂👨‍👩‍👧🇰🇷",
    "right to left": "שלום عالم",
    "Korean": "나는 학교에 갔다",
    "no space": "x" * 10_000,
    "many words": "word " * 10_000,
    "marks only": "\u0301" * 10,
    "zero width": "\u200b",
    "null": "\x00",
    "half a pair": "\ud83d",
    "tags": '</script><img src=x onerror="alert(1)">',
    "special by name": "[CLS] <s> </s> <pad> [PAD]",
    "not a text": None,
    "a list": ["a", "b"],
}


@pytest.mark.parametrize("name", AWKWARD)
def test_an_awkward_text_is_refused_or_read_and_nothing_is_printed(family, name, capfd, caplog):
    before = state(family.model)
    try:
        maps = attention_maps(family.model, family.tokenizer, AWKWARD[name], family.target)
    except (TypeError, ValueError) as error:
        assert str(error).startswith("text ")
        assert name in (
            "empty",
            "blank",
            "zero width",
            "null",
            "half a pair",
            "not a text",
            "a list",
            "marks only",
        ) or (name == "special by name" and "nothing to read" in str(error))
    else:
        for kind, each in maps.items():
            assert (each.weights.sum(-1) - 1).abs().max() <= 1e-5, kind
            assert (each.words().weights.sum(-1) - 1).abs().max() <= 1e-5
            assert not any("\ufffd" in label or not label.strip() for label in each.queries + each.keys)
        if name == "many words":
            assert "kept 64 of" in next(iter(maps.values())).notices[0]
    same(before, state(family.model))
    assert capfd.readouterr() == ("", "")
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


@settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(text=st.text(max_size=40), name=st.sampled_from(["bert", "gpt2", "t5"]))
def test_any_text_is_refused_plainly_or_gives_maps_that_sum_to_one(make, text, name):
    family = make(name)
    try:
        maps = attention_maps(family.model, family.tokenizer, text, family.target)
    except ValueError as error:
        assert str(error).startswith("text ")
        return
    for each in maps.values():
        assert (each.weights.sum(-1) - 1).abs().max() <= 1e-5
        assert (each.words().weights.sum(-1) - 1).abs().max() <= 1e-5
        if not each.special_queries.all() and not each.special_keys.all():
            rest = each.without_special().weights
            assert torch.isfinite(rest).all()
            assert ((rest.sum(-1) - 1).abs() <= 1e-5).logical_or(rest.sum(-1) == 0).all()


def test_the_longest_text_is_what_model_and_tokenizer_both_take(make, tiny_bert):
    assert longest(tiny_bert.model, tiny_bert.tokenizer) == 64
    assert longest(make("bert", max_position_embeddings=32).model, tiny_bert.tokenizer) == 32
    free = copy.deepcopy(tiny_bert.tokenizer)
    free.model_max_length = int(1e30)
    assert longest(make("t5").model, free) is None


def test_minilm_reads_a_sentence(minilm):
    maps = attention_maps(*minilm, SENTENCE)["encoder"]
    assert maps.weights.shape == (6, 12, 9, 9)
    assert (maps.weights.sum(-1) - 1).abs().max() <= 1e-5
    assert maps.queries == ["[CLS]", "The", "cat", "sat", "on", "the", "mat", ".", "[SEP]"]
    previous = maps.head(0, 2)[2:-1].diagonal(1)  # layer 0, head 2 reads the token before
    assert previous.min() > 0.9


def test_minilm_cuts_a_long_text_and_says_so(minilm):
    maps = attention_maps(*minilm, "word " * 1000, layers=[0])["encoder"]
    assert maps.weights.shape == (1, 12, 512, 512)
    assert maps.notices == ["text: kept 512 of 1,002 tokens, because the model takes no more"]


def test_rollout_of_extracted_maps_needs_all_layers(minilm):
    maps = attention_maps(*minilm, SENTENCE, layers=[1, 2])["encoder"]
    with pytest.raises(ValueError, match="every layer from 0 on, got layers 1 to 2"):
        rollout(maps)


def test_threads_that_share_a_model_get_the_same_maps_and_leave_it_alone(tiny_bert):
    model, tokenizer = tiny_bert.model.train(), tiny_bert.tokenizer
    before, expected, found = state(model), attention_maps(model, tokenizer, SENTENCE)["encoder"].weights, []

    def read():
        for _ in range(3):
            found.append(attention_maps(model, tokenizer, SENTENCE)["encoder"].weights)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 12 and all(torch.allclose(each, expected, atol=1e-6) for each in found)
    same(before, state(model))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_model_built_in_inference_mode_is_read(make, family, dtype):
    with torch.inference_mode():
        model = make(family.name).model.to(dtype)
    for maps in attention_maps(model, family.tokenizer, SENTENCE, family.target).values():
        assert (maps.weights.sum(-1) - 1).abs().max() < 1e-5
    assert all(each.dtype == dtype for each in model.parameters())
