"""How the translators are made: the split, the schedule, the same losses again, and going on after a kill."""

from __future__ import annotations

import pytest
import torch

from tools.translator.baselines import Dictionary
from tools.translator.extract import Pair, sentences
from tools.translator.prepare import clean, key, near_duplicates, split, usable
from tools.translator.train import Recipe, Run, batches
from utils.translator import TranslatorConfig

CONFIG = TranslatorConfig(vocab_size=40, d_model=16, ffn_dim=16, encoder_layers=1, decoder_layers=1, heads=2)
RECIPE = Recipe(steps=24, batch_tokens=60, warmup=5, checkpoint_every=5, evaluate_every=8, seed=3)


@pytest.fixture(scope="module")
def ids() -> tuple[list[list[int]], list[list[int]]]:
    random = torch.Generator().manual_seed(0)

    def rows() -> list[list[int]]:
        lengths = torch.randint(2, 9, (50,), generator=random).tolist()
        return [[*torch.randint(4, 40, (length,), generator=random).tolist(), 2] for length in lengths]

    return rows(), rows()


def probe(model) -> dict[str, float]:
    return {"weight": model.encoder.norm.weight.sum().item()}


def test_the_same_seed_gives_the_same_losses_and_another_seed_others(ids, tmp_path):
    first, again, other = (
        list(Run(CONFIG, Recipe(**{**vars(RECIPE), "seed": seed}), tmp_path / name).train(*ids))
        for name, seed in (("a", 3), ("b", 3), ("c", 4))
    )
    assert len(first) == 24
    assert first == again != other
    assert first[-1] < first[0]


@pytest.mark.parametrize("killed_after", [1, 5, 11, 23])
def test_a_killed_run_goes_on_to_the_same_curve(ids, tmp_path, killed_after):
    whole = Run(CONFIG, RECIPE, tmp_path / "whole")
    losses = list(whole.train(*ids, probe))

    killed = Run(CONFIG, RECIPE, tmp_path / "killed").train(*ids, probe)
    for _ in range(killed_after):
        next(killed)
    del killed
    torch.manual_seed(999)
    resumed = Run(CONFIG, RECIPE, tmp_path / "killed")
    assert resumed.step == killed_after // 5 * 5
    list(resumed.train(*ids, probe))
    assert resumed.losses == whole.losses == pytest.approx(losses, abs=1e-6)
    assert [{**point, "minutes": 0} for point in resumed.curve] == [{**point, "minutes": 0} for point in whole.curve]
    for name, weight in whole.average.state_dict().items():
        assert torch.equal(weight, resumed.average.state_dict()[name])


def test_a_half_written_checkpoint_is_never_read(ids, tmp_path):
    run = Run(CONFIG, RECIPE, tmp_path)
    list(zip(range(5), run.train(*ids), strict=False))
    (tmp_path / "checkpoint.new").write_bytes(b"cut off")
    assert Run(CONFIG, RECIPE, tmp_path).step == 5


def test_the_checkpoint_of_another_model_is_refused(ids, tmp_path):
    list(zip(range(5), Run(CONFIG, RECIPE, tmp_path).train(*ids), strict=False))
    with pytest.raises(ValueError, match="holds another model: name another run"):
        Run(TranslatorConfig(**{**CONFIG.to_dict(), "encoder_layers": 2}), RECIPE, tmp_path)


def test_the_rate_rises_stays_and_falls():
    recipe = Recipe(steps=1000, warmup=100)
    rates = [recipe.rate_at(step) for step in range(1000)]
    assert rates[:100] == sorted(rates[:100])
    assert rates[99] == rates[250] == max(rates) == recipe.rate
    assert rates[300:] == sorted(rates[300:], reverse=True)
    assert rates[-1] == pytest.approx(0.02 * recipe.rate)


def test_a_time_limit_becomes_a_number_of_steps(ids, tmp_path):
    run = Run(CONFIG, RECIPE, tmp_path, minutes=1e-9)
    assert len(list(run.train(*ids))) == run.recipe.steps >= 24
    assert Run(CONFIG, RECIPE, tmp_path, steps=7).recipe.steps == 7


def test_batches_hold_every_pair_once_and_stay_within_their_size(ids):
    found = batches(*ids, tokens=60, seed=1)
    assert sorted(i for chosen in found for i in chosen) == list(range(50))
    assert all(len(chosen) * max(max(len(ids[0][i]), len(ids[1][i])) for i in chosen) <= 60 for chosen in found)
    assert found == batches(*ids, tokens=60, seed=1) != batches(*ids, tokens=60, seed=2)


def corpus() -> list[Pair]:
    """Forty pages of ten sentences; every page repeats one sentence of the first page, with another number."""
    words = "open close save print the this that page sheet line cell row file menu tool chart".split()
    random = torch.Generator().manual_seed(0)

    def sentence() -> str:
        return " ".join(words[i] for i in torch.randint(len(words), (8,), generator=random).tolist())

    pairs = [Pair(text := sentence(), f"{text} auf Deutsch", f"page {page}") for page in range(40) for _ in range(10)]
    common = [Pair(f"Press the key number {page}.", f"Taste {page} auf Deutsch.", f"page {page}") for page in range(40)]
    return [*pairs, *common, Pair("Press the key number 77", "Taste 77", "")]


def test_no_sentence_of_a_held_out_page_is_trained_on():
    sets = split(corpus(), "de", test=50, validation=30)
    trained = {key(pair.source) for pair in sets["train"]}
    pages = {name: {pair.page for pair in sets[name]} for name in ("train", "validation", "test-pages")}
    assert not pages["train"] & pages["test-pages"] and not pages["validation"] & pages["test-pages"]
    for name in ("test", "test-pages", "validation"):
        assert not trained & {key(pair.source) for pair in sets[name]}
    assert "press the key number 0 0" not in trained and "press the key number 0" not in trained
    assert set(sets["test"]) <= set(sets["test-pages"])
    assert split(corpus(), "de", test=50, validation=30) == sets


def test_too_few_pages_are_reported():
    with pytest.raises(ValueError, match="not enough pages for 1000 test-pages sentences"):
        split(corpus(), "de", test=1000, validation=30)


def test_near_duplicates_are_found_by_shared_words():
    others = ["Draws a filled circle where you drag in the current document.", "Opens the menu."]
    near, far, same = near_duplicates(
        ["Draws a filled square where you drag in the current document.", "Prints all pages.", "Opens the menu"], others
    )
    assert 0.6 <= near < 1 and far == 0 and same == 1


def test_texts_are_cleaned_and_split_into_sentences():
    assert clean(" a\u00ad\u200bb\n c ") == "ab c"
    assert clean("\u1112\u1161\u11ab") == "한"
    assert key("Press F11, then F12!") == key("press f 22 then f 34")
    assert sentences("Open it, e.g. here. Then close it.", "en") == ["Open it, e.g. here.", "Then close it."]
    assert not usable(Pair("=SUM(A1:B5)", "=SUMME(A1:B5)", ""), "de")
    assert not usable(Pair("word " * 26, "Wort " * 26, ""), "de")


def test_the_dictionary_learns_words_and_copies_what_it_does_not_know():
    pairs = [Pair("the house", "das Haus", ""), Pair("the book", "das Buch", ""), Pair("a book", "ein Buch", "")]
    assert Dictionary(pairs, iterations=20)("The house, Anna!") == "das Haus, Anna!"
