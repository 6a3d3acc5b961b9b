"""Effects of single heads text by text, rank correlation, and the sweep that Lab 2 reads."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import spearmanr

from tools.sweeps.head_contribution import DRAWN, DRAWS, JUDGED, NAME, TOP, sets
from utils.corpora import translation_pairs
from utils.encoder_decoder import pair_batches, token_losses
from utils.head_audit import (
    Effects,
    passage_halves,
    search_effects,
    search_losses,
    short_docstrings,
    spearman,
    spearman_interval,
    stored_effects,
    translation_effects,
    vectors_without,
)
from utils.heads import Head, ablated, heads_of
from utils.models import DATA, MINILM_SHA256, load, sha256
from utils.search_index import embed, ranks, text_batches
from utils.sweeps import sweep

TEXTS = ["the cat sat on the mat", "a dog", "one more sentence", "the end of it all", "no"]
PAIRS = list(zip(TEXTS, TEXTS[1:] + TEXTS[:1], strict=True))


def test_vectors_are_those_of_embedding_within_the_ablation_whatever_the_order_of_heads(tiny_bert):
    _, model, tokenizer = tiny_bert[:3]
    chosen = [(1, 1), (0, 2), (1, 0)]
    heads, vectors = vectors_without(model, tokenizer, TEXTS, size=2, heads=chosen)
    assert [(head.layer, head.head) for head in heads] == chosen
    assert torch.allclose(vectors[0], embed(model, tokenizer, TEXTS), atol=1e-5)
    for head, found in zip(heads, vectors[1:], strict=True):
        with ablated(model, [head]):
            assert torch.allclose(found, embed(model, tokenizer, TEXTS), atol=1e-5)


@pytest.mark.parametrize("mode", ["zero", "mean"])
def test_effects_on_a_search_are_differences_of_losses_and_places(tiny_bert, mode):
    _, model, tokenizer = tiny_bert[:3]
    reference = None if mode == "zero" else text_batches(tokenizer, TEXTS[:3])
    found = search_effects(model, tokenizer, PAIRS, mode=mode, reference=reference)
    assert isinstance(found, Effects) and found.heads == heads_of(model)
    full = search_losses(model, tokenizer, PAIRS)
    assert torch.allclose(found.full, full, atol=1e-4)
    for place, head in enumerate(found.heads):
        with ablated(model, [head], mode, reference):
            losses = search_losses(model, tokenizer, PAIRS)
            queries, answers = (embed(model, tokenizer, side) for side in zip(*PAIRS, strict=True))
        assert torch.allclose(found.change[place], losses - full, atol=1e-3)
        assert torch.equal(found.places[place], ranks(queries, answers))


def test_effects_on_a_translation_are_those_of_the_token_losses():
    model, tokenizer = load("translator")
    batches = pair_batches(tokenizer, translation_pairs("test")[:4])
    head = Head(2, 3, "cross")
    found = translation_effects(model, batches, heads=[head])
    with ablated(model, [head]):
        mean = [float(each.mean()) for each in token_losses(model, batches).by_text()]
    assert (found.full + found.change[0]).tolist() == pytest.approx(mean, abs=1e-5)


def test_rank_correlation_is_that_of_scipy_with_ties_and_in_any_container():
    generator = np.random.default_rng(0)
    first, second = generator.integers(0, 6, 30), generator.normal(size=30)
    expected = spearmanr(first, second).statistic
    for turn in (list, torch.tensor, pd.Series, np.asarray):
        assert spearman(turn(first), turn(second)) == pytest.approx(expected)


def test_the_interval_is_narrow_for_texts_that_agree_and_wide_for_texts_that_do_not():
    effect, noise = torch.linspace(0, 1, 30)[:, None], torch.randn(30, 50, generator=torch.Generator().manual_seed(0))
    widths = []
    for size in (0.01, 1.0, 5.0):
        rho, low, high = spearman_interval(effect[:, 0], effect + size * noise, draws=200)
        assert -1 <= low <= high <= 1
        assert rho == spearman(effect[:, 0], (effect + size * noise).mean(1))
        widths.append(high - low)
    assert widths[0] < widths[1] < widths[2]


@pytest.mark.parametrize("tables", [1, 2])
def test_the_interval_is_that_of_single_draws(tables):
    generator = torch.Generator().manual_seed(2)
    change = torch.randint(0, 4, (12, 9), generator=generator).double()  # with ties
    score = change + torch.randn(12, 9, generator=generator) if tables == 2 else change[:, 0]
    found = spearman_interval(score, change, draws=40, seed=3)

    def draw(table: torch.Tensor) -> torch.Tensor:
        return table[:, torch.randint(9, (9,), generator=drawn)].mean(1)

    drawn = torch.Generator().manual_seed(3)
    single = [spearmanr(draw(score) if tables == 2 else score, draw(change)).statistic for _ in range(40)]
    assert found[1:] == pytest.approx(tuple(np.quantile(single, [0.025, 0.975])))


def test_two_tables_are_drawn_on_their_own():
    table = torch.randn(20, 40, generator=torch.Generator().manual_seed(1))
    rho, low, _ = spearman_interval(table, table, draws=100)
    assert rho == pytest.approx(1) and low < 0.95


@pytest.mark.parametrize("first, second", [([1, 2], [1, 2]), ([1, 2, 3], [1, 2]), ([[1, 2, 3]], [[1, 2, 3]])])
def test_lists_that_cannot_be_ranked_together_are_refused(first, second):
    with pytest.raises(ValueError, match="two lists of the same length"):
        spearman(first, second)


def test_the_sweep_is_about_the_shipped_models_and_complete():
    made, tables = sweep(NAME)["made"], stored_effects()
    assert made["model"] == MINILM_SHA256
    assert made["translator"] == sha256(DATA / "translator" / "model.safetensors")
    n = len(short_docstrings())
    modes = ["zero", "mean", *(f"resample-{seed}" for seed in range(DRAWS))]
    expected = {f"docstrings/{mode}": (72, n) for mode in modes}
    expected |= {"passages/zero": (72, len(passage_halves(n))), "translation/zero": (96, JUDGED)}
    assert {name: tuple(tables[name].shape) for name in expected} == expected


def test_the_sweep_tried_the_pairs_that_the_script_names(minilm):
    for task, model in (("docstrings", minilm.model), ("translation", load("translator").model)):
        rows = sweep(NAME)[f"together, {task}"]
        effect = stored_effects()[f"{task}/zero"].mean(1)
        named = [(sort, [[h.kind, h.layer, h.head] for h in out]) for sort, out in sets(heads_of(model), effect)]
        assert [(row["sort"], row["heads"]) for row in rows] == named
        assert sum(sort == "most useful" for sort, _ in named) == TOP * (TOP - 1) // 2
        assert sum(sort == "same layer" for sort, _ in named) == DRAWN


def test_spot_points_of_the_sweep_are_reproduced(minilm):
    pairs, tables = short_docstrings(), stored_effects()
    full, out = search_losses(*minilm, pairs), [Head(5, 7)]
    change = search_losses(*minilm, pairs, out) - full
    assert torch.allclose(tables["docstrings/full"], full, atol=5e-3)
    assert torch.allclose(
        tables["docstrings/zero"][heads_of(minilm.model).index(Head(5, 7, "encoder"))], change, atol=5e-3
    )
