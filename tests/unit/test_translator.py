"""The translator: its maps, its search, its files, and the sentences it comes with."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
import torch
from transformers import AutoConfig, AutoModel, AutoModelForSeq2SeqLM

from tools.translator.card import card
from utils.attention import attention_maps
from utils.corpora import translation_pairs
from utils.models import EMBEDDED, SMALL, load
from utils.translator import Translator, TranslatorConfig, translate

DATA = Path(__file__).resolve().parents[2] / "data"
SHIPPED = [name for name in EMBEDDED if (DATA / name / "config.json").is_file()]
shipped = pytest.mark.parametrize("name", SHIPPED or [pytest.param("", marks=pytest.mark.skip("no translator yet"))])


@pytest.fixture
def tiny() -> Translator:
    """Random weights, large enough that distances matter and that the next word is not always the last one."""
    torch.manual_seed(0)
    config = TranslatorConfig(vocab_size=60, d_model=32, ffn_dim=48, encoder_layers=3, decoder_layers=2, heads=4)
    model = Translator(config).eval()
    for layer in model.encoder.layers:
        torch.nn.init.normal_(layer.relative_bias.weight, std=0.2)
    for layer in model.decoder.layers:
        for part in (layer.attention.output, layer.cross_attention.output, layer.feed_forward[-1]):
            torch.nn.init.normal_(part.weight, std=2.0)
    return model


def batch(rows: int = 3, length: int = 9, seed: int = 0) -> dict[str, torch.Tensor]:
    """Random source ids, the first row padded."""
    ids = torch.randint(4, 60, (rows, length), generator=torch.Generator().manual_seed(seed))
    mask = torch.ones_like(ids)
    mask[0, 6:] = 0
    return {"input_ids": ids.masked_fill(mask == 0, 0), "attention_mask": mask}


def target(rows: int = 3, length: int = 7) -> torch.Tensor:
    return torch.randint(4, 60, (rows, length), generator=torch.Generator().manual_seed(1))


def test_eager_and_fused_attention_agree(tiny):
    fused = tiny(**batch(), decoder_input_ids=target()).logits
    tiny.set_attn_implementation("eager")
    plain = tiny(**batch(), decoder_input_ids=target()).logits
    assert torch.allclose(fused, plain, atol=1e-5)
    assert tiny(**batch(), decoder_input_ids=target()).cross_attentions is None


def test_maps_are_distributions_causal_in_the_decoder_and_rectangular_across(tiny):
    out = tiny(**batch(), decoder_input_ids=target(), output_attentions=True)
    kinds = {"encoder": out.encoder_attentions, "decoder": out.decoder_attentions, "cross": out.cross_attentions}
    shapes = {kind: (len(maps), *maps[0].shape) for kind, maps in kinds.items()}
    assert shapes == {"encoder": (3, 3, 4, 9, 9), "decoder": (2, 3, 4, 7, 7), "cross": (2, 3, 4, 7, 9)}
    for maps in kinds.values():
        assert all(torch.allclose(layer.sum(-1), torch.ones(()), atol=1e-5) for layer in maps)
    assert all((layer.triu(1) == 0).all() and (layer.tril() > 0).any() for layer in kinds["decoder"])
    padded = [*kinds["encoder"], *kinds["cross"]]
    assert all((layer[0, ..., 6:] == 0).all() for layer in padded)


def test_padding_changes_nothing(tiny):
    inputs = batch()
    alone = tiny(inputs["input_ids"][:1, :6], inputs["attention_mask"][:1, :6], target()[:1]).logits
    assert torch.allclose(tiny(**inputs, decoder_input_ids=target()).logits[:1], alone, atol=1e-5)


def test_the_relative_bias_is_what_makes_the_encoder_see_distances_beyond_the_positions(tiny):
    out = tiny(**batch(), decoder_input_ids=target()).logits
    for layer in tiny.encoder.layers:
        torch.nn.init.zeros_(layer.relative_bias.weight)
    assert not torch.allclose(out, tiny(**batch(), decoder_input_ids=target()).logits, atol=1e-3)


def naive(model: Translator, inputs: dict[str, torch.Tensor], steps: int) -> list[list[int]]:
    """Greedy search by running the whole model anew for every token, one sentence at a time, without padding."""
    found = []
    for ids, mask in zip(inputs["input_ids"], inputs["attention_mask"], strict=True):
        ids, written = ids[mask.bool()][None], [1]
        while len(written) <= steps and written[-1] != 2:
            written.append(int(model(ids, decoder_input_ids=torch.tensor([written])).logits[0, -1].argmax()))
        found.append(written)
    return found


def cut(row: list[int]) -> list[int]:
    """Up to the first end token."""
    return row[: row.index(2) + 1] if 2 in row else row


@torch.inference_mode()
def test_greedy_search_is_the_arg_max_of_the_whole_model(tiny):
    found = tiny.generate(**batch(), max_new_tokens=12).tolist()
    assert [cut(row) for row in found] == naive(tiny, batch(), 12)
    assert len({tuple(row) for row in found}) > 1


@pytest.mark.parametrize("beams", [1, 4])
def test_the_cache_changes_no_translation(tiny, beams):
    with_cache = tiny.generate(**batch(), max_new_tokens=12, num_beams=beams)
    assert torch.equal(with_cache, tiny.generate(**batch(), max_new_tokens=12, num_beams=beams, use_cache=False))


def test_beams_find_likelier_translations_than_greedy_search(tiny):
    def likelihood(beams: int) -> torch.Tensor:
        ids = tiny.generate(
            **batch(), max_new_tokens=8, min_new_tokens=8, num_beams=beams, length_penalty=0.0, eos_token_id=59
        )
        scores = tiny(**batch(), decoder_input_ids=ids[:, :-1]).logits.log_softmax(-1)
        return scores.gather(-1, ids[:, 1:, None])[..., 0].sum(-1)

    assert (likelihood(4) >= likelihood(1) - 1e-4).all()


def test_labels_are_moved_right_and_padding_is_not_scored(tiny):
    labels = target()
    labels[0, 5:] = -100
    moved = tiny.prepare_decoder_input_ids_from_labels(labels)
    assert moved[:, 0].tolist() == [1, 1, 1]
    assert moved[0].tolist() == [1, *labels[0, :5].tolist(), 0]
    out = tiny(**batch(), labels=labels)
    scores = out.logits.log_softmax(-1)
    picked = [scores[i, t, labels[i, t]] for i in range(3) for t in range(7) if labels[i, t] != -100]
    assert torch.isclose(out.loss, -torch.stack(picked).mean(), atol=1e-5)


def test_hidden_states_begin_with_the_embedding_and_end_with_the_output(tiny):
    out = tiny(**batch(), decoder_input_ids=target(), output_hidden_states=True)
    assert (len(out.encoder_hidden_states), len(out.decoder_hidden_states)) == (4, 3)
    assert torch.equal(out.encoder_hidden_states[-1], out.encoder_last_hidden_state)
    assert torch.equal(out.decoder_hidden_states[-1] @ tiny.get_input_embeddings().weight.T, out.logits)


@pytest.mark.parametrize("auto", [AutoModel, AutoModelForSeq2SeqLM])
def test_a_saved_model_comes_back_through_the_auto_classes(tiny, tmp_path, auto):
    tiny.save_pretrained(tmp_path)
    again = auto.from_pretrained(tmp_path).eval()
    assert type(again) is Translator
    assert isinstance(AutoConfig.from_pretrained(tmp_path), TranslatorConfig)
    assert torch.equal(
        again(**batch(), decoder_input_ids=target()).logits, tiny(**batch(), decoder_input_ids=target()).logits
    )
    assert torch.equal(again.generate(**batch()), tiny.generate(**batch()))


def test_config_knows_the_names_that_others_use():
    config = TranslatorConfig(encoder_attention_heads=4)
    assert config.heads == config.num_attention_heads == config.decoder_attention_heads == 4
    assert (config.hidden_size, config.num_hidden_layers) == (128, 6)


def test_errors_say_what_is_missing_or_too_long(tiny):
    with pytest.raises(ValueError, match="decoder_input_ids and labels are both missing"):
        tiny(**batch())
    with pytest.raises(ValueError, match="161 tokens came, the translator takes 160 at most"):
        tiny(torch.full((1, 161), 5), decoder_input_ids=target())
    with pytest.raises(ValueError, match="width 30 does not divide into 4 heads"):
        Translator(TranslatorConfig(vocab_size=60, d_model=30, heads=4))
    with pytest.raises(TypeError, match="pass \\[sentence\\]"):
        translate(tiny, None, "one sentence")


@pytest.mark.parametrize("language", ["de", "ko"])
def test_pairs_of_different_splits_share_no_source(language):
    def keys(split: str) -> set[str]:
        pairs = translation_pairs(split, language)
        assert all(source and other and source != other for source, other in pairs)
        return {" ".join("".join(c if c.isalpha() else " " for c in source.lower()).split()) for source, _ in pairs}

    train, validation, test = keys("train"), keys("validation"), keys("test")
    assert len(train) > 9000 and len(validation) > 500 and len(test) >= 1000
    assert not (train & test or train & validation or validation & test)


@pytest.mark.parametrize(
    "arguments, words",
    [
        (("dev",), "split must be one of 'train', 'validation', 'test', got 'dev'"),
        (("test", "fr"), "target must be one of 'de', 'ko', got 'fr'"),
        ((None,), "got None"),
    ],
)
def test_unknown_pairs_are_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        translation_pairs(*arguments)


@shipped
def test_the_shipped_translator_has_the_size_and_the_heads_promised(name):
    model, tokenizer = load(name)
    assert (model.config.encoder_layers, model.config.heads) == (6, 8)
    assert model.config.decoder_layers >= 3
    assert model.num_parameters() <= 4_000_000 and model.dtype == torch.float32
    assert (DATA / name / "model.safetensors").stat().st_size <= 20_000_000
    assert tokenizer.is_fast and len(tokenizer) == model.config.vocab_size


@shipped
def test_the_shipped_translator_translates_what_its_scores_say(name):
    """A tenth of the test set is scored again; the whole is in scores.json."""
    import sacrebleu

    model, tokenizer = load(name)
    pairs = translation_pairs("test", "ko" if name == "translator-ko" else "de")[:150]
    stored = json.loads((DATA / name / "scores.json").read_text(encoding="utf-8"))
    began = time.process_time()
    texts = translate(model, tokenizer, [source for source, _ in pairs])
    assert time.process_time() - began < 10
    chrf = sacrebleu.corpus_chrf(texts, [[reference for _, reference in pairs]]).score
    assert abs(chrf - stored["test"]["greedy"]["chrf"]) < 6
    copied = sacrebleu.corpus_chrf([s for s, _ in pairs], [[reference for _, reference in pairs]]).score
    assert chrf > copied + 15


def test_the_small_translators_differ_in_their_seed_alone():
    files = {name: {path.stem: path for path in (DATA / name).iterdir()} for name in SMALL}
    assert all(sum(path.stat().st_size for path in each.values()) < 3_000_000 for each in files.values())
    for same in ("config", "tokenizer"):
        assert len({each[same].read_bytes() for each in files.values()}) == 1
    recipes = [json.loads(each["curve"].read_text("utf-8"))["recipe"] for each in files.values()]
    assert [recipe.pop("seed") for recipe in recipes] == [1, 2, 3]
    assert len({json.dumps({k: v for k, v in r.items() if k != "minutes"}) for r in recipes}) == 1
    first, second, third = (load(name).model.encoder.layers[0].attention.query.weight for name in SMALL)
    assert not torch.allclose(first, second, atol=0.01) and not torch.allclose(second, third, atol=0.01)


@shipped
def test_the_card_has_the_numbers_of_the_scores(name):
    text = card(DATA / name, "ko" if name == "translator-ko" else "de")
    assert (DATA / name / "README.md").read_text(encoding="utf-8") == text


@shipped
def test_a_batch_of_translations_equals_one_by_one(name):
    model, tokenizer = load(name)
    sentences = [source for source, _ in translation_pairs("validation")[:8]]
    assert translate(model, tokenizer, sentences) == [translate(model, tokenizer, [s])[0] for s in sentences]
    assert translate(model, tokenizer, []) == []


@shipped
def test_all_three_kinds_of_maps_come_out_of_the_shipped_translator(name):
    model, tokenizer = load(name)
    language = "ko" if name == "translator-ko" else "de"
    source, other = translation_pairs("test", language)[0]
    maps = attention_maps(model, tokenizer, source, other)
    assert set(maps) == {"encoder", "decoder", "cross"}
    assert maps["encoder"].weights.shape[:2] == (6, 8)
    assert maps["cross"].weights.shape[-2:] == (len(maps["cross"].queries), len(maps["encoder"].keys))
    assert torch.allclose(maps["cross"].weights.sum(-1), torch.ones(()), atol=1e-5)


@shipped
def test_text_comes_back_from_the_tokenizer(name):
    _, tokenizer = load(name)
    language = "ko" if name == "translator-ko" else "de"
    for text in (side for pair in translation_pairs("validation", language)[:100] for side in pair):
        ids = tokenizer(text)["input_ids"]
        assert ids[-1] == tokenizer.eos_token_id
        if tokenizer.unk_token_id not in ids:
            assert tokenizer.decode(ids, skip_special_tokens=True) == text
    assert len(tokenizer("2026", add_special_tokens=False)["input_ids"]) == 4
