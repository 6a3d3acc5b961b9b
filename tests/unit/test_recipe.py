"""A pruned model as a recipe: back to the last digit, and refused when something does not fit."""

from __future__ import annotations

import json

import families
import pytest
import torch
from families import KINDS, real
from test_pruning import PRUNED, batch, near, some

from utils.heads import Head, gated, heads_of
from utils.pruning import load_pruned, prune, removed, save_pruned


def stored(make, tmp_path, name: str, seed: int = 0):
    """A family whose model and tokenizer lie in a folder."""
    family = make(name, seed=seed)
    folder = tmp_path / f"{name}-{seed}"
    family.model.save_pretrained(folder)
    family.tokenizer.save_pretrained(folder)
    return family, folder


def tune(model: torch.nn.Module) -> None:
    """Move all weights a little."""
    generator = torch.Generator().manual_seed(5)
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.data += 0.01 * torch.randn(parameter.shape, generator=generator)


@pytest.mark.parametrize("name", PRUNED)
def test_a_recipe_gives_the_same_model_again(make, tmp_path, name):
    family, base = stored(make, tmp_path, name)
    pruned = prune(family.model, some(family.model, KINDS[name][-1], 0))
    for step in ("pruned", "tuned"):
        folder = save_pruned(pruned, tmp_path / step, base)
        assert (folder / "tuned.safetensors").exists() == (step == "tuned")
        again, tokenizer = load_pruned(folder)
        assert heads_of(again) == heads_of(pruned) and not again.training
        assert near(real(again, batch(again)), real(pruned, batch(pruned)), 1e-6)
        assert tokenizer("a cat").input_ids == family.tokenizer("a cat").input_ids
        tune(pruned)
    more = heads_of(again)[:1]
    with gated(again, {more[0]: 0.0}):
        expected = real(again, batch(again))
    assert near(real(prune(again, more), batch(again)), expected)


def test_the_embedded_models_are_kept_by_name(minilm, tmp_path):
    heads = heads_of(minilm.model)[::3]
    folder = save_pruned(prune(minilm.model, heads), tmp_path / "small", "minilm")
    assert sum(path.stat().st_size for path in folder.iterdir()) < 3000
    assert json.loads((folder / "recipe.json").read_text())["base"] == "minilm"
    again = load_pruned(folder).model
    inputs = minilm.tokenizer(["A cat sat.", "Hi"], return_tensors="pt", padding=True)
    assert removed(again) == heads
    assert near(real(again, inputs), real(prune(minilm.model, heads), inputs), 1e-6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_attention_heads": 8}, "num_attention_heads = 8, expected 4"),
        ({"hidden_act": "relu"}, "hidden_act = 'relu'"),
    ],
)
def test_a_model_of_equal_shapes_that_computes_something_else_is_refused(make, tmp_path, change, message):
    family, other = make("bert"), make("bert", **change)
    family.model.save_pretrained(tmp_path / "base")
    family.tokenizer.save_pretrained(tmp_path / "base")
    other.model.load_state_dict(family.model.state_dict())
    with pytest.raises(ValueError, match=message):
        save_pruned(other.model, tmp_path / "recipe", tmp_path / "base")
    family.model.config.hidden_dropout_prob = 0.3  # which changes training only
    save_pruned(family.model, tmp_path / "recipe", tmp_path / "base")


@pytest.mark.parametrize("tied", [True, False])
def test_weights_that_are_shared_otherwise_than_in_the_base_are_refused(make, tmp_path, tied):
    family = make("gpt2", tie_word_embeddings=tied)
    family.model.save_pretrained(tmp_path / "base")
    family.tokenizer.save_pretrained(tmp_path / "base")
    pruned = prune(family.model, [Head(0, 1)])
    save_pruned(pruned, tmp_path / "recipe", tmp_path / "base")
    embedding = pruned.transformer.wte.weight
    pruned.lm_head.weight = torch.nn.Parameter(embedding.detach() + torch.randn_like(embedding)) if tied else embedding
    with pytest.raises(ValueError, match="it shares the weights"):
        save_pruned(pruned, tmp_path / "recipe", tmp_path / "base")


def test_weights_too_large_for_half_precision_are_refused(make, tmp_path):
    family = make("bert")
    family.model.save_pretrained(tmp_path / "base")
    family.tokenizer.save_pretrained(tmp_path / "base")
    pruned = prune(family.model, [Head(0, 1)])
    pruned.embeddings.word_embeddings.weight.data[3, 3] = 1e6
    with pytest.raises(ValueError, match="embeddings.word_embeddings.weight has values that float16 cannot hold"):
        save_pruned(pruned, tmp_path / "recipe", tmp_path / "base", half=True)
    save_pruned(pruned, tmp_path / "recipe", tmp_path / "base")


def test_half_precision_is_half_the_bytes_and_near(make, tmp_path):
    family, base = stored(make, tmp_path, "bart")
    pruned = prune(family.model, [Head(0, 1, "encoder")])
    tune(pruned)
    sizes = {}
    for half in (False, True):
        folder = save_pruned(pruned, tmp_path / str(half), base, half=half)
        sizes[half] = (folder / "tuned.safetensors").stat().st_size
    assert sizes[True] < 0.6 * sizes[False]
    again = load_pruned(tmp_path / "True").model
    assert again.dtype == torch.float32
    assert near(real(again, batch(again)), real(pruned, batch(pruned)), 0.05)
    save_pruned(prune(family.model, [Head(0, 1, "encoder")]), tmp_path / "True", base)
    assert not (tmp_path / "True" / "tuned.safetensors").exists()  # an older one does not stay


def test_another_base_is_refused(make, tmp_path):
    family, base = stored(make, tmp_path, "bert")
    pruned = prune(family.model, [Head(0, 1)])
    other = stored(make, tmp_path, "gpt2")[1]
    with pytest.raises(ValueError, match="BertModel.*GPT2LMHeadModel"):
        save_pruned(pruned, tmp_path / "x", other)
    wider = make("bert", intermediate_size=64)
    wider.model.save_pretrained(tmp_path / "wide")
    wider.tokenizer.save_pretrained(tmp_path / "wide")
    with pytest.raises(ValueError, match="its config has intermediate_size = 48, expected 64"):
        save_pruned(pruned, tmp_path / "x", tmp_path / "wide")
    cut = prune(pruned, [])
    cut.pooler.dense.weight = torch.nn.Parameter(torch.zeros(3, 32))
    with pytest.raises(ValueError, match=r"pooler.dense.weight has the shape \(3, 32\), expected \(32, 32\)"):
        save_pruned(cut, tmp_path / "x", base)
    assert not (tmp_path / "x").exists()
    folder = save_pruned(pruned, tmp_path / "y", base)
    with pytest.raises(ValueError, match="SHA-256"):
        load_pruned(folder, base=stored(make, tmp_path, "bert", seed=1)[1])
    moved = base.rename(tmp_path / "moved")
    with pytest.raises((FileNotFoundError, OSError), match="bert-0"):
        load_pruned(folder)
    assert heads_of(load_pruned(folder, base=moved).model) == heads_of(pruned)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text[:40], "no JSON"),
        (lambda text: "[]", "no table"),
        (lambda text: text.replace('"removed"', '"gone"'), "'removed' as list"),
        (lambda text: text.replace('"format": 1', '"format": 9'), "format 9"),
        (lambda text: text.replace('"encoder",\n   0,\n   1', '"encoder",\n   0,\n   77'), "heads 0 to 3"),
        (lambda text: text.replace('"encoder",\n   0,\n   1', '"decoder",\n   0,\n   1'), "no 'decoder'"),
        (lambda text: text.replace('"encoder",\n   0,\n   1', '"encoder",\n   0'), r"\[\"kind\", layer, head\]"),
        (lambda text: text.replace('"tuned": 0', '"tuned": 3'), "tuned.safetensors is missing"),
    ],
)
def test_a_damaged_recipe_is_refused(make, tmp_path, change, message):
    family, base = stored(make, tmp_path, "bert")
    folder = save_pruned(prune(family.model, [Head(0, 1)]), tmp_path / "small", base)
    text = (folder / "recipe.json").read_text()
    assert change(text) != text
    (folder / "recipe.json").write_text(change(text))
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        load_pruned(folder)


def test_damaged_weights_and_missing_folders_are_refused(make, tmp_path):
    family, base = stored(make, tmp_path, "bert")
    with pytest.raises(FileNotFoundError, match="recipe.json is missing"):
        load_pruned(tmp_path / "nowhere")
    with pytest.raises(OSError, match="nowhere"):
        save_pruned(family.model, tmp_path / "x", str(tmp_path / "nowhere"))
    with pytest.raises(TypeError, match="torch.nn.Module"):
        save_pruned("minilm", tmp_path / "x", "minilm")
    pruned = prune(family.model, [Head(0, 1)])
    tune(pruned)
    folder = save_pruned(pruned, tmp_path / "small", base)
    path = folder / "tuned.safetensors"
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match="damaged"):
        load_pruned(folder)
    other = prune(family.model, [Head(0, 1), Head(0, 2)])
    tune(other)
    path.write_bytes((save_pruned(other, tmp_path / "other", base) / "tuned.safetensors").read_bytes())
    with pytest.raises(ValueError, match="does not fit"):
        load_pruned(folder)


def test_a_whole_model_and_a_t5_are_kept_too(make, tmp_path):
    family, base = stored(make, tmp_path, "t5")
    tune(family.model)
    again = load_pruned(save_pruned(family.model, tmp_path / "same", base)).model
    families.same(tensors(again), tensors(family.model))


def tensors(model: torch.nn.Module) -> dict:
    return {"tensors": {name: (None, each) for name, each in model.state_dict().items()}}
