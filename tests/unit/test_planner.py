"""The planner's arithmetic against the course's figures, real models, torch's counters and measured bytes."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.utils.flop_counter import FlopCounterMode
from transformers import (
    BertConfig,
    BertModel,
    DistilBertConfig,
    DistilBertModel,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
)

from utils.planner import (
    BERT_BASE,
    CONTEXT_BYTES,
    DISTILBERT,
    GPT2,
    METHODS,
    MINILM,
    Architecture,
    Machine,
    activations,
    compute_crossover,
    flash_state,
    flops,
    group_parameters,
    heads_of_share,
    kv_cache,
    largest_batch,
    layer_flops,
    layer_parameters,
    memory,
    memory_crossover,
    parameters,
    plan,
    pruning_table,
    score_matrix,
    seconds,
    seconds_per_token,
    trainable,
    training_flops,
    transient,
)

pytestmark = pytest.mark.usefixtures("one_thread")
MIB = 2**20
FAMILIES = ("bert", "distilbert", "gpt2", "llama")


def build(family: str, device: str = "meta", layers: int = 2, attention: str = "eager", small: bool = False, **changes):
    """A model of base width, or of width 64 with 4 heads; on the meta device it takes no memory and no time."""
    width, heads, vocabulary = (64, 4, 500) if small else (768, 12, 1000)
    common = {"vocab_size": vocabulary, "attn_implementation": attention}
    if family == "bert":
        sizes = {"hidden_size": width, "num_hidden_layers": layers, "num_attention_heads": heads}
        config, kind = BertConfig(**(common | sizes | {"intermediate_size": 4 * width} | changes)), BertModel
    elif family == "distilbert":
        sizes = {"dim": width, "n_layers": layers, "n_heads": heads, "hidden_dim": 4 * width}
        config, kind = DistilBertConfig(**(common | sizes | changes)), DistilBertModel
    elif family == "gpt2":
        sizes = {"n_embd": width, "n_layer": layers, "n_head": heads, "bos_token_id": 0, "eos_token_id": 0}
        config, kind = GPT2Config(**(common | sizes | changes)), GPT2LMHeadModel
    else:
        sizes = {"hidden_size": width, "num_hidden_layers": layers, "num_attention_heads": heads}
        sizes |= {"num_key_value_heads": heads // 4, "intermediate_size": 3 * width}
        config, kind = LlamaConfig(**(common | sizes | changes)), LlamaForCausalLM
    with torch.device(device), torch.random.fork_rng(devices=[]):
        return kind(config)


def ids(model: nn.Module, tokens: int, batch: int) -> torch.Tensor:
    return torch.zeros(batch, tokens, dtype=torch.long, device=model.device)


def kept_bytes(model: nn.Module, tokens: int, batch: int) -> int:
    """Bytes of all tensors that autograd keeps in a forward pass, each storage once, without the model's own."""
    own = {tensor.untyped_storage()._cdata for tensor in [*model.parameters(), *model.buffers()]}
    kept = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        kept[tensor.untyped_storage()._cdata] = tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        output = model(ids(model, tokens, batch))
    del output
    return sum(tensor.untyped_storage().nbytes() for place, tensor in kept.items() if place not in own)


def kept_by_layer(family: str, tokens: int, batch: int, *, train: bool, **options) -> int:
    """What one layer more makes autograd keep."""
    one, two = (kept_bytes(build(family, layers=n, **options).train(train), tokens, batch) for n in (1, 2))
    return two - one


def peak_bytes(run) -> int:
    """The most bytes that a call holds at a time, by torch's own record of each allocation."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as record:
        result = run()
    del result
    now = peak = 0
    for event in record.profiler.kineto_results.events():
        if event.name() == "[memory]":
            now += event.nbytes()
            peak = max(peak, now)
    return peak


# The figures of the course's "apply" task: width 768, 512 tokens, 2 GB.


def test_parameters_of_bert_base_are_the_known_numbers():
    layer = layer_parameters(BERT_BASE)
    assert layer[:3] == (4 * 768**2 + 4 * 768, 8 * 768**2 + 5 * 768, 4 * 768)
    assert layer.total == 7_087_872
    whole = parameters(BERT_BASE)
    assert whole.total == 109_482_240
    assert (whole.embeddings + 2 * 768, whole.pooler) == (23_837_184, 590_592)
    assert whole.attention == 28_348_416
    assert round(whole.attention / whole.total, 2) == 0.26
    assert round(whole.attention / (12 * layer.total), 2) == 0.33
    assert (4 * whole.total, 2 * whole.total) == (437_928_960, 218_964_480)
    assert round(2 * whole.total / MIB) == 209
    assert group_parameters(BERT_BASE) == 196_608 + 192


def test_memory_of_bert_base_is_the_known_numbers():
    assert score_matrix(BERT_BASE, 512, value_bytes=4) == 12 * MIB
    assert score_matrix(BERT_BASE, 512) == 6 * MIB
    assert transient(BERT_BASE, 512) == 15 * MIB
    assert activations(BERT_BASE, 512) == 12 * 512 * (34 * 768 + 5 * 12 * 512) == 349_175_808
    assert activations(BERT_BASE, 512, attention="flash") == 12 * 512 * 768 * 34 == 160_432_128
    assert flash_state(BERT_BASE, 512) == 24 * 1024
    states = memory(BERT_BASE, 512, method="AdamW mixed")
    assert states.weights + states.gradients + states.optimiser == 16 * 109_482_240
    assert kv_cache(BERT_BASE, 512) == 0
    caches = [kv_cache(GPT2.with_heads(12, kv), 512) / MIB for kv in (12, 4, 1)]
    assert caches == [18, 6, 1.5]


def test_operations_of_bert_base_are_the_known_numbers():
    layer = layer_flops(BERT_BASE, 512)
    assert layer == (8 * 512 * 768**2, 4 * 512**2 * 768, 16 * 512 * 768**2, 0, 0)
    assert [round(each / 1e9, 2) for each in (layer.total - layer.scores, layer.scores, layer.total)] == [
        7.25,
        0.81,
        8.05,
    ]
    assert round(flops(BERT_BASE, 512).total / 1e9, 1) == 96.6
    assert round((layer.projections + layer.scores) / layer.total, 2) == 0.40
    assert round(layer.scores / layer.total, 2) == 0.10
    assert compute_crossover(BERT_BASE) == 6 * 768
    assert memory_crossover(BERT_BASE) == pytest.approx(6.8 * 64)


def test_pruning_saves_the_known_numbers():
    table = pruning_table(BERT_BASE, 512).set_index("removed")
    assert list(table.index) == [3, 6, 8]
    assert list(table["parameters_removed"]) == [7_084_800, 14_169_600, 18_892_800]
    assert [round(share, 3) for share in table["parameters_saved"]] == [0.065, 0.129, 0.173]
    assert [round(each / 1e9, 2) for each in table["layer_flops"]] == [7.25, 6.44, 5.91]
    assert [round(share, 2) for share in table["layer_flops_saved"]] == [0.10, 0.20, 0.27]
    assert list(table["scores_saved"]) == pytest.approx([0.25, 0.5, 2 / 3])
    assert list(pruning_table(GPT2)["kv_cache_saved"]) == pytest.approx([0.25, 0.5, 2 / 3])
    assert not pruning_table(BERT_BASE)["kv_cache_saved"].any()


def test_heads_change_score_memory_but_neither_parameters_nor_operations():
    splits = [BERT_BASE.with_heads(heads) for heads in (6, 8, 12, 16, 24)]
    assert [each.head_width for each in splits] == [128, 96, 64, 48, 32]
    assert len({parameters(each) for each in splits}) == len({flops(each, 512) for each in splits}) == 1
    assert [score_matrix(each, 512) // MIB for each in splits] == [3, 4, 6, 8, 12]


def test_presets_have_the_published_sizes(minilm):
    assert Architecture.of(minilm.model) == MINILM
    with torch.device("meta"):
        assert Architecture.of(BertModel(BertConfig())) == BERT_BASE
        assert Architecture.of(DistilBertModel(DistilBertConfig())) == DISTILBERT
        assert Architecture.of(GPT2LMHeadModel(GPT2Config(bos_token_id=0, eos_token_id=0))) == GPT2


# Real parameters.


@pytest.mark.parametrize("name", FAMILIES)
def test_parameters_equal_those_of_tiny_models(make, name):
    model = make(name).model
    architecture = Architecture.of(model)
    assert parameters(architecture).total == sum(each.numel() for each in model.parameters())
    assert group_parameters(architecture) * architecture.layers == (
        parameters(architecture).total - parameters(architecture.without_heads(architecture.group)).total
    )


@pytest.mark.parametrize(
    ("family", "changes"),
    [
        ("bert", {"vocab_size": 30522, "layers": 12}),
        ("bert", {"layers": 24, "hidden_size": 1024, "num_attention_heads": 16, "intermediate_size": 4096}),
        ("distilbert", {"vocab_size": 30522, "layers": 6}),
        ("gpt2", {"vocab_size": 50257, "layers": 12, "n_inner": 1000}),
        ("llama", {"layers": 32, "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8}),
        ("llama", {"layers": 12, "head_dim": 48, "tie_word_embeddings": True}),
    ],
)
def test_parameters_equal_those_of_models_of_base_size(family, changes):
    model = build(family, **changes)
    found = sum(each.numel() for each in model.parameters())
    print(f"{family} {changes}: {found:,} parameters")
    assert parameters(Architecture.of(model)).total == found


def narrow(model: BertModel, removed: int) -> BertModel:
    """BERT with smaller projections in each layer, built by hand."""
    width = model.config.hidden_size
    rest = width - removed * width // model.config.num_attention_heads
    for layer in model.encoder.layer:
        for name in ("query", "key", "value"):
            setattr(layer.attention.self, name, nn.Linear(width, rest, device="meta"))
        layer.attention.output.dense = nn.Linear(rest, width, device="meta")
    return model


@pytest.mark.parametrize("removed", [1, 6, 11])
def test_a_pruned_architecture_has_the_parameters_of_narrower_layers(removed):
    model = build("bert", layers=3)
    expected = parameters(Architecture.of(model).without_heads(removed)).total
    assert sum(each.numel() for each in narrow(model, removed).parameters()) == expected
    with pytest.raises(ValueError, match="its config implies .*without_heads"):
        Architecture.of(model)


def adapt(model: BertModel, rank: int) -> BertModel:
    """BERT with adapters on query and value, all else frozen."""

    class Adapted(nn.Module):
        def __init__(self, base: nn.Linear) -> None:
            super().__init__()
            self.base = base
            self.down = nn.Linear(base.in_features, rank, bias=False, device=base.weight.device)
            self.up = nn.Linear(rank, base.out_features, bias=False, device=base.weight.device)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.base(x) + self.up(self.down(x))

    model.requires_grad_(False)
    for layer in model.encoder.layer:
        layer.attention.self.query = Adapted(layer.attention.self.query)
        layer.attention.self.value = Adapted(layer.attention.self.value)
    return model


def tune_norms_and_biases(model: nn.Module) -> nn.Module:
    """Matrices and tables frozen."""
    for parameter in model.parameters():
        parameter.requires_grad_(parameter.ndim == 1)
    return model


def trained_numbers(model: nn.Module) -> int:
    return sum(each.numel() for each in model.parameters() if each.requires_grad)


@pytest.mark.parametrize("name", FAMILIES)
def test_norms_and_biases_are_counted_as_in_the_model(make, name):
    model = make(name).model
    architecture = Architecture.of(model)
    assert trainable(architecture, "norms and biases") == trained_numbers(tune_norms_and_biases(model))
    assert trainable(architecture) == parameters(architecture).total
    assert trainable(architecture, "nothing") == 0


def test_adapters_are_counted_as_in_the_model():
    assert trainable(BERT_BASE, "adapters", rank=8) == trained_numbers(adapt(build("bert", layers=12), 8)) == 294_912


# Operations, counted by torch: matrix products, a multiplication and an addition as two.


def counted(run) -> int:
    with FlopCounterMode(display=False) as counter:
        run()
    return counter.get_total_flops()


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("family", FAMILIES)
def test_operations_equal_torchs_count_at_base_size(family, attention):
    """On the meta device sdpa falls back to the plain products, which the counter sees."""
    model = build(family, layers=12 if family == "bert" else 2, attention=attention)
    expected = flops(Architecture.of(model), 512, 2).total
    found = counted(lambda: model(ids(model, 512, 2)))
    print(f"{family} {attention}: counted {found:,}, formula {expected:,}")
    assert found == expected


@pytest.mark.parametrize("name", FAMILIES)
def test_operations_equal_torchs_count_on_tiny_models_and_the_flash_kernel_is_not_counted(make, name):
    model = make(name).model
    expected = flops(Architecture.of(model), 24, 3)
    model.set_attn_implementation("eager")
    with torch.no_grad():
        assert counted(lambda: model(ids(model, 24, 3))) == expected.total
        model.set_attn_implementation("sdpa")  # on the CPU one kernel, which the counter does not know
        assert counted(lambda: model(ids(model, 24, 3))) == expected.total - expected.scores


@pytest.mark.parametrize("trained", ["everything", "norms and biases", "adapters"])
def test_operations_of_training_equal_torchs_count(trained):
    model = build("bert", layers=6 if trained == "adapters" else 2)
    architecture = Architecture.of(model)
    if trained == "norms and biases":
        tune_norms_and_biases(model)
    elif trained == "adapters":
        adapt(model, 8)
    found = counted(lambda: model(ids(model, 512, 2)).pooler_output.sum().backward())
    expected = training_flops(architecture, 512, 2, trained=trained)
    print(f"{trained}: counted {found:,}, formula {expected:,}, ratio {expected / found:.4f}")
    # Beyond the formula: LoRA's first layer needs no gradient of its input; its adapters add their own products.
    assert expected == pytest.approx(found, rel=0.02 if trained == "adapters" else 1e-12)


def test_checkpointing_computes_the_layers_once_more():
    forward = flops(BERT_BASE, 512)
    plain, again = (training_flops(BERT_BASE, 512, checkpointing=each) for each in (False, True))
    assert plain == 3 * forward.total
    assert again - plain == forward.total - forward.pooler


# Bytes that autograd keeps.

UNNAMED = 0.001  # the share of means and deviations of norms, and of flash attention's normalisers where not counted


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize(("attention", "train"), [("eager", False), ("eager", True), ("sdpa", False)])
def test_bert_keeps_for_the_backward_pass_what_the_formula_says(attention, train, device):
    """Without dropout and with it; the masks of dropout take 4 bytes on the CPU. sdpa is one kernel on the CPU only."""
    small = device == "cpu"
    found = kept_by_layer("bert", 256, 2, train=train, attention=attention, device=device, small=small)
    kernel = "flash" if attention == "sdpa" and device == "cpu" else "eager"
    one = Architecture.of(build("bert", layers=1, small=small))
    expected = activations(one, 256, 2, attention=kernel, value_bytes=4, mask_bytes=4, dropout=train)
    expected += flash_state(one, 256, 2) if kernel == "flash" else 0
    print(f"BERT {attention} train={train} {device}: kept {found:,}, formula {expected:,}, {expected / found:.4f}")
    norms = 2 * 2 * 4 * 256 * 2  # a mean and a deviation each
    assert found == expected + norms


def test_sdpa_with_dropout_keeps_the_scores_on_the_cpu():
    """A known limit: torch's flash kernel for the CPU has no dropout, so training falls back to plain products."""
    eager, sdpa = (
        kept_by_layer("bert", 64, 2, train=True, attention=each, device="cpu", small=True) for each in ("eager", "sdpa")
    )
    assert eager == sdpa


@pytest.mark.parametrize(
    ("family", "extra", "why"),
    [
        ("distilbert", -1, "no dropout after attention"),
        ("gpt2", 12, "GELU in separate steps keeps three more copies of the feed-forward width"),
        ("llama", 2 + 1.5, "norms in separate steps; keys and values repeated for 12 heads where 3 would do"),
    ],
)
def test_what_other_models_keep_beyond_the_formula_is_known(family, extra, why):
    """extra: in units of the width, a token and layer."""
    one = Architecture.of(build(family, layers=1))
    found = kept_by_layer(family, 512, 2, train=True)
    expected = activations(one, 512, 2, value_bytes=4, mask_bytes=4, dropout=family != "llama")
    print(f"{family}: kept {found:,}, formula {expected:,}, ratio {expected / found:.3f}: {why}")
    assert found == pytest.approx(expected + extra * 4 * 512 * 2 * 768, rel=UNNAMED)


def test_gpt2_with_a_gelu_of_one_step_keeps_what_the_formula_says():
    one = Architecture.of(build("gpt2", layers=1))
    found = kept_by_layer("gpt2", 512, 2, train=True, activation_function="gelu")
    assert found == pytest.approx(activations(one, 512, 2, value_bytes=4, mask_bytes=4), rel=UNNAMED)


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("trained", ["norms and biases", "adapters"])
def test_frozen_matrices_do_not_keep_their_inputs(trained, attention):
    def kept(layers: int) -> int:
        model = build("bert", "cpu", layers, attention, small=True).eval()
        return kept_bytes(tune_norms_and_biases(model) if trained != "adapters" else adapt(model, 2), 128, 2)

    found = kept(3) - kept(2)
    kernel = "flash" if attention == "sdpa" else "eager"
    one = Architecture.of(build("bert", layers=1, small=True))
    options = {"attention": kernel, "dropout": False, "value_bytes": 4}
    expected = activations(one, 128, 2, trained=trained, **options)
    full = activations(one, 128, 2, **options)
    print(f"{trained} {attention}: kept {found:,}, formula {expected:,}, {expected / found:.3f}; all trained {full:,}")
    small = 2 * 2 + (2 * 2 if trained == "adapters" else 0)  # two norms' two numbers, two adapters' rank, a token
    expected += flash_state(one, 128, 2) if kernel == "flash" else 0
    assert found == expected + small * 4 * 128 * 2
    assert expected < 0.8 * full


def test_the_loss_of_a_decoder_keeps_its_scores_over_the_vocabulary_in_float32():
    model = build("gpt2", "cpu", 1, small=True).eval()
    architecture, kept = Architecture.of(model), []
    for labels in (None, ids(model, 32, 2)):
        model.forward = partial(type(model).forward, model, labels=labels)
        kept.append(kept_bytes(model, 32, 2))
    scores = 4 * 32 * 2 * architecture.vocabulary
    print(f"GPT-2: the loss keeps {kept[1] - kept[0]:,} bytes more, formula {scores:,}")
    assert kept[1] - kept[0] == pytest.approx(scores, rel=0.01)
    parts = memory(architecture, 32, 2, "AdamW mixed")
    assert parts.activations == activations(architecture, 32, 2) + scores


def test_memory_puts_the_parts_of_training_together():
    llama = Architecture.of(build("llama"))
    no_dropout = activations(llama, 64, dropout=False) + 4 * 64 * llama.vocabulary
    assert memory(llama, 64, method="AdamW mixed").activations == no_dropout
    options = {"attention": "flash", "checkpointing": True}
    parts = memory(BERT_BASE, 512, method="AdamW mixed", **options)
    assert parts.activations == activations(BERT_BASE, 512, **options) + flash_state(BERT_BASE, 512)


# Bytes at the peak.


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize(
    ("family", "small", "tokens", "batch"),
    [("bert", True, 128, 2), ("bert", True, 64, 4), ("bert", False, 512, 1), ("distilbert", True, 128, 2)],
)
def test_the_peak_of_inference_is_what_the_formula_says(family, small, tokens, batch, attention):
    """At 128 and 512 tokens eager attention sets the peak, at 64 tokens the feed-forward network beside its weights."""
    model = build(family, "cpu", 1, attention, small).eval()
    batch_ids = ids(model, tokens, batch)
    with torch.no_grad():
        found = peak_bytes(lambda: model(batch_ids))
    kernel = "flash" if attention == "sdpa" else "eager"
    expected = transient(Architecture.of(model), tokens, batch, attention=kernel, value_bytes=4)
    print(f"{family} {attention} {tokens} tokens: peak {found:,}, formula {expected:,}, ratio {expected / found:.4f}")
    assert found == pytest.approx(expected, rel=0.001)


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_the_peak_of_inference_of_decoders_is_above_the_formula(family, attention):
    """Their nonlinearity, norms, rotary positions and masks are written in steps that hold copies."""
    model = build(family, "cpu", 1, attention, small=True).eval()
    batch_ids = ids(model, 128, 2)
    with torch.no_grad():
        found = peak_bytes(lambda: model(batch_ids, use_cache=False))
    kernel = "flash" if attention == "sdpa" else "eager"
    expected = transient(Architecture.of(model), 128, 2, attention=kernel, value_bytes=4)
    print(f"{family} {attention}: peak {found:,}, formula {expected:,}, ratio {expected / found:.3f}")
    assert 0.4 < expected / found <= 1


def test_a_second_layer_adds_only_the_first_ones_input_to_the_peak_of_inference():
    peaks = []
    for layers in (1, 2, 4):
        model = build("bert", "cpu", layers, small=True).eval()
        with torch.no_grad():
            peaks.append(peak_bytes(lambda model=model: model(ids(model, 128, 2))))
    print(f"peak with 1, 2 and 4 layers: {peaks}")
    assert peaks[1] - peaks[0] <= 4 * 128 * 2 * 64
    assert peaks[2] == peaks[1]


@pytest.mark.parametrize("small", [True, False])
def test_a_training_step_with_adamw_peaks_where_the_formula_says(small):
    """Gradients stay allocated between steps, as when they are accumulated."""
    tokens, batch = (128, 4) if small else (128, 2)
    model = build("bert", "cpu", 2 if small else 1, small=small).train()
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4)
    batch_ids = ids(model, tokens, batch)

    def step() -> None:
        optimiser.zero_grad(set_to_none=False)
        model(batch_ids).pooler_output.sum().backward()
        optimiser.step()

    step()
    held = sum(2 * 4 * each.numel() for each in model.parameters())
    states = sum(4 * each.numel() for state in optimiser.state.values() for each in state.values())
    found = held + states + peak_bytes(step)
    architecture = Architecture.of(model)
    parts = memory(architecture, tokens, batch, "AdamW float32")
    assert parts.weights + parts.gradients == held
    assert parts.optimiser == states - 4 * len(optimiser.state)  # AdamW counts the steps of each tensor
    expected = parts.total - parts.activations
    expected += activations(architecture, tokens, batch, value_bytes=4, mask_bytes=4)
    print(f"AdamW, small={small}: peak {found:,}, formula {expected:,}, ratio {expected / found:.3f}")
    assert 0.8 < expected / found <= 1  # the rest: gradients on their way back, the embeddings' own activations


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_the_cache_of_a_real_decoder_has_the_size_of_the_formula(make, name):
    model = make(name).model
    with torch.no_grad():
        cache = model(ids(model, 24, 3), use_cache=True).past_key_values
    found = sum(layer.keys.nbytes + layer.values.nbytes for layer in cache.layers)
    assert kv_cache(Architecture.of(model), 24, 3, value_bytes=4) == found


def test_the_score_matrix_has_the_size_of_returned_weights(tiny_bert):
    tiny_bert.model.set_attn_implementation("eager")
    with torch.no_grad():
        maps = tiny_bert.model(ids(tiny_bert.model, 24, 3), output_attentions=True).attentions
    assert score_matrix(Architecture.of(tiny_bert.model), 24, 3, value_bytes=4) == maps[0].nbytes


# Methods, time, plans.


def test_methods_take_the_known_bytes_a_parameter():
    def bytes_each(method: str) -> float:
        parts = memory(BERT_BASE, 8, method=method)
        return (parts.weights + parts.gradients + parts.optimiser) / parameters(BERT_BASE).total

    everything = [name for name, how in METHODS.items() if how.trained == "everything"]
    assert dict(zip(everything, map(bytes_each, everything), strict=True)) == {
        "SGD float32": 8,
        "AdamW float32": 16,
        "AdamW mixed": 16,
        "8-bit Adam mixed": 10,
    }
    assert bytes_each("LoRA mixed") == 2 + 16 * 294_912 / 109_482_240
    assert 2 < bytes_each("norms and biases mixed") < 2.02


def test_checkpointing_keeps_the_inputs_of_layers_and_one_layer():
    kept = activations(BERT_BASE, 512, checkpointing=True)
    assert kept == 12 * 512 * 768 * 2 + activations(BERT_BASE, 512) // 12


MACHINE = Machine(flop_per_second=1e12, bytes_per_second=1e11)


def test_time_is_bound_by_operations_in_large_batches_and_by_weights_in_small_ones():
    assert seconds(BERT_BASE, 512, 8, machine=MACHINE) == flops(BERT_BASE, 512, 8).total / 1e12
    assert seconds(BERT_BASE, 1, 1, machine=MACHINE) == 2 * parameters(BERT_BASE).total / 1e11
    assert seconds(BERT_BASE, 1, 1, "SGD float32", machine=MACHINE) == (4 + 2 * 4) * parameters(BERT_BASE).total / 1e11
    assert seconds(BERT_BASE, 512, 8, "SGD float32", machine=MACHINE) == 3 * flops(BERT_BASE, 512, 8).total / 1e12


def test_fewer_key_value_heads_make_the_next_token_faster():
    times = [seconds_per_token(GPT2.with_heads(12, kv), 1024, 64, machine=MACHINE) for kv in (12, 4, 1)]
    assert times[0] > times[1] > times[2]
    moved = 2 * parameters(GPT2).total + kv_cache(GPT2, 1024, 64)
    assert times[0] == moved / 1e11
    slow = Machine(flop_per_second=1e6, bytes_per_second=1e11)
    work = flops(GPT2, 1024).scores // 1024 + flops(GPT2, 1).total - flops(GPT2, 1).scores
    assert seconds_per_token(GPT2, 1024, machine=slow) == work / 1e6


def test_the_planner_reaches_the_decision_of_the_apply_task():
    """Context of 300 to 500 MB gives batches near 80 to 100; full fine-tuning with AdamW does not fit, LoRA does."""
    batches = [
        int(plan(2e9, tokens=512, methods=["inference float16"], attention=["eager"], context=context)["batch"][0])
        for context in (300_000_000, CONTEXT_BYTES, 500_000_000)
    ]
    print(f"largest batches for 300, 400 and 500 MB of context: {batches}")
    assert all(80 <= batch <= 100 for batch in batches)
    tuning = plan(2e9, tokens=512, task="fine-tuning").set_index(["method", "attention"])["batch"]
    assert not tuning["AdamW mixed"].any()
    assert not tuning["AdamW float32"].any()
    assert (tuning[["LoRA mixed", "norms and biases mixed", "8-bit Adam mixed"]] > 0).all()


def test_the_largest_batch_fits_and_one_text_more_does_not():
    options = {"tokens": 512, "pruned": (0, 0.5), "heads": (8, 12), "task": "fine-tuning", "attention": ["eager"]}
    frame = plan(3e9, **options)
    for row in frame.itertuples():
        variant = BERT_BASE.with_heads(row.heads + row.removed).without_heads(row.removed)
        more = memory(variant, 512, row.batch + 1, row.method, context=CONTEXT_BYTES).total
        assert more > 3e9
        assert row.fits == (row.batch > 0) == (row.total <= 3e9) == (row.why_not == "")
        assert row.total == sum(frame.loc[row.Index, list(memory(BERT_BASE, 8)._fields)])


def test_a_limit_on_time_makes_the_batch_smaller_and_is_named():
    def one(**options):
        return plan(2e9, tokens=512, methods=["inference float16"], attention=["flash"], **options).iloc[0]

    free, limited = one(machine=MACHINE), one(machine=MACHINE, limit=1.0)
    assert 0 < limited["batch"] < free["batch"]
    assert limited["seconds"] <= 1 < seconds(BERT_BASE, 512, limited["batch"] + 1, machine=MACHINE)
    impossible = one(machine=MACHINE, limit=0.01)
    assert (impossible["batch"], impossible["fits"]) == (0, False)
    assert impossible["why_not"] == "takes at least 0.0966 s, the limit is 0.01 s"
    both = one(machine=MACHINE, limit=0.01, batch=1000)
    assert "needs 8,483 MB of 2,000 MB, the largest part is activations" in both["why_not"]
    assert "takes at least 96.6 s" in both["why_not"]


def test_a_plan_passes_over_key_value_heads_that_do_not_divide_the_heads():
    frame = plan(2e9, GPT2, tokens=512, heads=(8, 12), kv_heads=(1, 3, 12), methods=["inference float16"])
    assert sorted(set(zip(frame["heads"], frame["kv_heads"], strict=True))) == [(8, 1), (12, 1), (12, 3), (12, 12)]
    with pytest.raises(ValueError, match=r"kv_heads \[5\] divide none of the numbers of heads \[12\]"):
        plan(2e9, GPT2, tokens=512, kv_heads=[5])
    grouped = plan(2e9, GPT2.with_heads(12, 4), tokens=512, pruned=iter([0, 0.5]))
    assert sorted(set(zip(grouped["heads"], grouped["kv_heads"], strict=True))) == [(6, 2), (12, 4)]
    assert len(grouped) == 8


def test_shares_are_rounded_to_whole_groups_and_one_group_stays():
    grouped = GPT2.with_heads(12, 4)
    assert [heads_of_share(BERT_BASE, share) for share in (0, 0.25, 0.5, 0.67, 0.99)] == [0, 3, 6, 8, 11]
    assert [heads_of_share(grouped, share) for share in (0, 0.25, 0.5, 0.67, 0.99)] == [0, 3, 6, 9, 9]


# Properties over sizes.

HEADS = st.sampled_from([2, 4, 6, 8, 12])
LENGTHS = st.integers(1, 256)


@st.composite
def architectures(draw) -> Architecture:
    heads = draw(HEADS)
    return Architecture(
        layers=draw(st.integers(1, 6)),
        width=heads * draw(st.integers(1, 32)),
        heads=heads,
        kv_heads=draw(st.sampled_from([each for each in range(1, heads + 1) if heads % each == 0])),
        ffn_width=draw(st.integers(1, 300)),
        vocabulary=draw(st.integers(1, 1000)),
        positions=draw(st.sampled_from([0, 1024])),
        token_types=draw(st.integers(0, 2)),
        pooler=draw(st.booleans()),
        kind=draw(st.sampled_from(["encoder", "decoder"])),
        gated=draw(st.booleans()),
        output=draw(st.sampled_from(["none", "tied", "untied"])),
    )


METHOD = st.sampled_from(list(METHODS))
KERNEL = st.sampled_from(["eager", "flash"])


@settings(max_examples=40, deadline=None)
@given(architectures(), LENGTHS, st.integers(1, 8), METHOD, KERNEL)
def test_more_of_anything_costs_more(architecture, tokens, batch, method, kernel):
    def cost(a=architecture, n=tokens, size=batch):
        time = seconds(a, n, size, method, machine=MACHINE)
        return memory(a, n, size, method, attention=kernel).total, flops(a, n, size).total, time

    here = cost()
    for larger in (
        cost(n=tokens + 1),
        cost(size=batch + 1),
        cost(a=replace(architecture, layers=architecture.layers + 1)),
        cost(a=replace(architecture, ffn_width=architecture.ffn_width + 1)),
    ):
        assert all(more >= less for more, less in zip(larger, here, strict=True))
        assert larger[1] > here[1]
    assert memory(architecture, tokens, batch, method, attention="flash").total <= (
        memory(architecture, tokens, batch, method, attention="eager").total
        + architecture.layers * architecture.query_width * tokens * batch * 8
    )


@settings(max_examples=40, deadline=None)
@given(architectures(), LENGTHS, METHOD)
def test_grouped_queries_lie_between_one_and_all_key_value_heads(architecture, tokens, method):
    all_heads, one = (architecture.with_heads(architecture.heads, kv) for kv in (architecture.heads, 1))
    for cost in (
        lambda a: parameters(a).total,
        lambda a: kv_cache(a, tokens),
        lambda a: memory(a, tokens, method=method).total,
        lambda a: flops(a, tokens).total,
    ):
        assert cost(one) <= cost(architecture) <= cost(all_heads)


@settings(max_examples=40, deadline=None)
@given(architectures(), LENGTHS, st.data())
def test_removing_a_group_saves_exactly_its_parameters_and_its_share_of_scores(architecture, tokens, data):
    groups = data.draw(st.integers(0, architecture.kv_heads - 1))
    pruned = architecture.without_heads(groups * architecture.group)
    saved = parameters(architecture).total - parameters(pruned).total
    assert saved == architecture.layers * groups * group_parameters(architecture)
    share = groups / architecture.kv_heads
    assert score_matrix(pruned, tokens) == pytest.approx((1 - share) * score_matrix(architecture, tokens))
    assert kv_cache(pruned, tokens) == pytest.approx((1 - share) * kv_cache(architecture, tokens))
    layers = layer_flops(architecture, tokens), layer_flops(pruned, tokens)
    assert layers[1][:2] == pytest.approx([(1 - share) * each for each in layers[0][:2]])
    assert layers[1].ffn == layers[0].ffn


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**7))
def test_the_largest_batch_is_found(limit):
    assert largest_batch(lambda size: size <= limit) == limit


@settings(max_examples=25, deadline=None)
@given(architectures(), LENGTHS, st.integers(10**6, 10**9), st.integers(0, 10**9))
def test_a_larger_budget_never_gives_a_smaller_batch(architecture, tokens, budget, more):
    options = {"tokens": tokens, "methods": ["AdamW mixed"], "task": "fine-tuning", "context": 0}
    small, large = (plan(each, architecture, **options)["batch"] for each in (budget, budget + more))
    assert (small <= large).all()


# Input that makes no sense.

SIZES = {"layers": 2, "width": 64, "heads": 4, "vocabulary": 100, "positions": 32}


@pytest.mark.parametrize("name", [*SIZES, "head_width", "kv_heads", "ffn_width", "token_types"])
@given(value=st.one_of(st.booleans(), st.floats(), st.text(max_size=3), st.integers(max_value=-1), st.just([4])))
@settings(max_examples=15, deadline=None)
def test_a_size_that_is_no_size_is_refused_by_name(name, value):
    kind = ValueError if isinstance(value, int) and not isinstance(value, bool) else TypeError
    with pytest.raises(kind, match=rf"^{name} is .*: give a whole number"):
        Architecture(**(SIZES | {name: value}))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: Architecture(**(SIZES | {"heads": 5})),
            r"width 64 cannot be shared by 5 heads: take one of \[1, 2, 4",
        ),
        (lambda: Architecture(**SIZES, kv_heads=3), r"4 heads cannot share 3 key/value heads: take one of \[1, 2, 4\]"),
        (lambda: Architecture(**SIZES, kind="both"), "kind is 'both': give one of 'encoder', 'decoder'"),
        (lambda: Architecture(**SIZES, output="shared"), "output is 'shared': give one of 'none', 'tied', 'untied'"),
        (lambda: BERT_BASE.without_heads(12), r"cannot remove 12 of 12 heads: take one of \[0, 1"),
        (lambda: GPT2.with_heads(12, 4).without_heads(2), r"cannot remove 2 of 12 heads: take one of \[0, 3, 6, 9\]"),
        (lambda: flops(BERT_BASE, 513), "tokens is 513, but the model has positions for 512: shorten"),
        (lambda: flops(BERT_BASE, 0), "tokens is 0: give a whole number of at least 1"),
        (lambda: kv_cache(GPT2, 8, -1), "batch is -1: give a whole number of at least 1"),
        (lambda: activations(BERT_BASE, 8, attention="sdpa"), "attention is 'sdpa': give one of 'eager', 'flash'"),
        (lambda: activations(BERT_BASE, 8, trained="nothing"), "trained is 'nothing': give one of 'everything'"),
        (lambda: memory(BERT_BASE, 8, method="Adam"), "method is 'Adam': give one of 'inference float32'"),
        (lambda: trainable(BERT_BASE, "biases"), "trained is 'biases': give one of 'nothing', 'everything'"),
        (lambda: trainable(BERT_BASE, "adapters", rank=0), "rank is 0: give a whole number of at least 1"),
        (lambda: seconds(BERT_BASE, 8, machine=Machine(0, 1e9)), "flop_per_second is 0: give a finite number above 0"),
        (
            lambda: seconds_per_token(BERT_BASE, 8, machine=MACHINE),
            "kind 'encoder' with 'inference float16' does not generate: give a decoder",
        ),
        (lambda: plan(2, tokens=512), r"budget is 2 bytes, below 1 MB: give bytes, such as 2 \* 10\*\*9 for 2 GB"),
        (lambda: plan(float("nan"), tokens=512), "budget is nan: give a finite number above 0"),
        (lambda: plan(2e9, tokens=512, task="training"), "task is 'training': give one of 'inference', 'fine-tuning'"),
        (lambda: plan(2e9, tokens=512, methods=["LoRA mixed"]), "a method of inference is 'LoRA mixed': give one of"),
        (lambda: plan(2e9, tokens=512, limit=1.0), "a limit in seconds needs machine=Machine"),
        (lambda: plan(2e9, tokens=512, pruned=[1.0]), "a share of heads is 1.0: give a number from 0 to below 1"),
        (lambda: plan(2e9, tokens=512, heads=[]), "heads is empty: give at least one value, or leave heads out"),
        (lambda: plan(2e9, tokens=512, batch=0), "batch is 0: give a whole number of at least 1"),
        (lambda: plan(2e9, tokens=512, attention=["sdpa"]), "attention is 'sdpa': give one of 'eager', 'flash'"),
    ],
)
def test_a_bad_value_is_refused_with_the_way_out(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: plan("2 GB", tokens=512), "budget is '2 GB' .str.: give a number"),
        (lambda: plan(2e9, tokens=512.0), "tokens is 512.0 .float.: give a whole number"),
        (lambda: plan(2e9, tokens=512, pruned=["half"]), "a share of heads is 'half' .str.: give a number such as 0.5"),
        (lambda: plan(2e9, tokens=512, heads=["12"]), "heads is '12' .str.: give a whole number"),
        (lambda: plan(2e9, tokens=512, heads=12), "heads is 12: give a list such as .12."),
        (lambda: plan(2e9, tokens=512, attention="eager"), "attention is 'eager': give a list such as .'eager'."),
        (lambda: plan(2e9, tokens=512, machine=(1e9, 1e9)), "give Machine.flop_per_second, bytes_per_second."),
        (lambda: pruning_table(shares=0.5), "shares is 0.5: give a list such as .0.5."),
        (lambda: plan(2e9, "bert", tokens=512), "architecture is 'bert' .str.: give an Architecture"),
        (lambda: BERT_BASE.without_heads(0.5), "removed is 0.5 .float.: give a whole number"),
    ],
)
def test_a_bad_type_is_refused_with_the_way_out(call, message):
    with pytest.raises(TypeError, match=message):
        call()


@pytest.mark.parametrize("name", ["bart", "marian", "t5", "translator"])
def test_other_models_are_refused_by_name(make, name):
    model = make(name).model
    with pytest.raises(
        ValueError, match=f"{type(model).__name__} .* is not supported: give a model of one of the types"
    ):
        Architecture.of(model)


def test_a_module_without_a_config_is_refused():
    with pytest.raises(ValueError, match="Linear .* is not supported"):
        Architecture.of(nn.Linear(2, 2))
