"""The unknown model of the assessment "Analyse": what is stored, what is planted in it, and measures of it."""

from __future__ import annotations

import random

import pytest
import torch

from tools import unknown_model, unknown_notes
from tools.unknown_model import PLAN
from utils import analyse
from utils import analyse_truth as truth
from utils.analyse import FLOOR
from utils.attention import attention_maps
from utils.heads import Head, gated, heads_of
from utils.models import untrained
from utils.pruning import prune

torch.set_num_threads(1)


def planned(layer: int, name: str) -> Head:
    return Head(layer, PLAN[layer][name], "decoder")


# What is stored.


def test_the_notes_are_those_of_the_script_and_no_note_is_in_both_halves():
    read, judge = (analyse.notes(split) for split in analyse.SPLITS)
    assert len(set(read)) == len(set(judge)) == 96 and not set(read) & set(judge)
    assert list(read) == unknown_notes.notes(96, seed=10_001)
    assert set(judge) <= set(unknown_notes.notes(120, seed=10_002))
    with pytest.raises(ValueError, match="split must be one of read, judge"):
        analyse.notes("test")


def test_a_note_has_what_can_be_known():
    words = unknown_notes.note(random.Random(3)).split()
    assert len(words) == 50 and words[7::7] == ["."] * 7
    home = dict(zip(words[1::7], words[2::7], strict=True))
    assert len(home) <= 3 and [home[name] for name in words[1::7]] == words[2::7]
    verbs = {}
    for text in analyse.notes("read"):
        each = text.split()
        time = unknown_notes.TIMES.index(each[0]) % 2
        for noun, ending, verb in zip(each[3::7], each[4::7], each[5::7], strict=True):
            assert verbs.setdefault((noun, "verb"), verb) == verb
            assert verbs.setdefault((noun, time), ending) == ending
        assert len(set(zip(each[2::7], each[6::7], strict=True))) == len(set(each[2::7]))
    changed = [verbs[noun, 0] != verbs[noun, 1] for noun in unknown_notes.NOUNS if {(noun, 0), (noun, 1)} <= set(verbs)]
    assert all(changed)  # so the first word is needed for every ending


def test_the_tokenizer_knows_every_word():
    _, tokenizer = analyse.unknown()
    batch = analyse.batch_of(tokenizer, analyse.notes("read"))
    assert batch["input_ids"].shape == (96, 50) and batch["input_ids"].min() > 0
    assert tokenizer.decode(batch["input_ids"][0]) == analyse.notes("read")[0]
    with pytest.raises(ValueError, match="equally many tokens"):
        analyse.batch_of(tokenizer, ["dawn", "dawn ."])


def test_the_model_is_small_and_has_learned_its_notes():
    size = sum(path.stat().st_size for path in analyse.FOLDER.iterdir())
    assert size < 1.5e6
    assert len(heads_of(truth.model())) == 16
    assert truth.whole() < 1.2 < analyse.loss(untrained(truth.model()), truth.batch())


# What is planted.


def test_every_planted_head_has_its_role():
    expected = {
        (0, "previous"): "offset -1",
        (0, "twin"): "offset -1",
        (0, "third back"): "offset -3",
        (0, "loud"): "offset 0",
        (0, "first"): "first token",
        (0, "sink"): "first token",
        (0, "wide"): "diffuse",
        (1, "wide"): "diffuse",
        (1, "lookup"): "content",
        (1, "free"): "content",
    }
    assert {place: truth.role(planned(*place)) for place in expected} == expected


def test_the_duplicates_are_the_two_pairs_of_twins_and_no_others():
    twins = [(planned(0, "previous"), planned(0, "twin")), (planned(1, "lookup"), planned(1, "twin"))]
    assert truth.duplicates() == [tuple(sorted(pair)) for pair in twins]
    far, near = truth.compared()[tuple(sorted((planned(0, "first"), planned(0, "sink"))))]
    assert far < 0.05 and abs(near) < 0.3  # equal maps, other values
    far, near = truth.compared()[tuple(sorted((planned(1, "lookup"), planned(1, "same output"))))]
    assert far > 0.5 and near > 0.99  # the same output, other maps


@pytest.mark.parametrize("layer", [0, 1])
def test_each_twin_may_go_and_both_not(layer):
    pair = [planned(layer, "twin"), planned(layer, ("previous", "lookup")[layer])]
    assert max(truth.cost([each]) for each in pair) < 0.02
    assert truth.cost(pair) > 2 * FLOOR


def test_a_head_that_looks_like_a_sink_and_an_even_one_are_needed_and_a_loud_one_is_not():
    assert truth.cost([planned(0, "first")]) > FLOOR
    assert truth.cost([planned(0, "wide")]) > FLOOR
    assert truth.cost([planned(0, "third back")]) > 5 * FLOOR
    sigma = analyse.singular_values(truth.model(), "value-output")
    sizes = sigma.norm(dim=-1)
    assert sizes[0, PLAN[0]["loud"]] > 2 * sizes[0, PLAN[0]["first"]]
    for place in ((0, "loud"), (0, "sink"), (0, "noise"), (1, "echo"), (1, "sink"), (1, "sink 2"), (1, "wide")):
        assert abs(truth.cost([planned(*place)])) < 0.01
    kept = [(0, "wide"), (0, "third back"), (0, "first"), (0, "twin"), (1, "twin")]
    gone = [each for each in heads_of(truth.model()) if each not in [planned(*place) for place in kept]]
    assert len(gone) == 11 and truth.cost(gone) < FLOOR / 2


def test_what_is_planted_is_put_back_after_a_step():
    torch.manual_seed(0)
    model = untrained(truth.model(), seed=5)
    planting = unknown_model.Planting(model, seed=0)
    planting.restore()
    before = {name: each.clone() for name, each in model.state_dict().items()}
    with torch.no_grad():
        for each in model.parameters():
            each.add_(torch.randn_like(each))
    planting.restore()
    query = slice(0, 16)  # of the even head: no scores at all
    assert not before["transformer.h.0.attn.c_attn.weight"][:, query].any()
    assert torch.equal(model.transformer.wpe.weight, unknown_model.positions())
    attention = model.transformer.h[0].attn
    at = unknown_model.columns(0, "third back")
    assert torch.equal(attention.c_attn.weight[:, at], before["transformer.h.0.attn.c_attn.weight"][:, at])
    assert not attention.c_proj.weight[unknown_model.columns(0, "twin")].any()
    assert not model.transformer.wte.weight[:, unknown_model.FIRST :].any()


def test_splitting_a_head_into_twins_changes_nothing():
    model = untrained(truth.model(), seed=3)
    unknown_model.Planting(model, seed=0).restore()
    batch = {"input_ids": truth.batch()["input_ids"][:4]}
    whole = analyse.loss(model, batch)
    unknown_model.finish(model, seed=0)
    ones = torch.ones(2, 8)
    for place in ("sink", "sink 2", "noise", "same output"):  # what finish gives them is switched off
        for layer in (0, 1):
            if place in PLAN[layer]:
                ones[layer, PLAN[layer][place]] = 0
    with gated(model, ones):
        assert abs(analyse.loss(model, batch) - whole) < 1e-4


# Measures.


def test_loss_without_heads_is_that_of_the_pruned_model():
    gone = [planned(0, "wide"), planned(1, "free")]
    assert analyse.loss(truth.model(), truth.batch(), gone) == pytest.approx(
        analyse.loss(prune(truth.model(), gone), truth.batch()), abs=1e-5
    )


def test_maps_are_those_that_the_book_extracts():
    model, tokenizer = analyse.unknown()
    batch = analyse.batch_of(tokenizer, analyse.notes("read")[:2])
    expected = attention_maps(model, tokenizer, analyse.notes("read")[1])["decoder"].weights
    assert torch.allclose(analyse.maps_of(model, batch)[:, :, 1], expected, atol=1e-5)


def test_products_are_those_of_the_weights():
    model = truth.model()
    attention = model.transformer.h[1].attn
    value, output = attention.c_attn.weight[:, 256 + 32 : 256 + 48], attention.c_proj.weight[32:48]
    sigma = torch.linalg.svdvals((value @ output).double())[:16]
    assert torch.allclose(analyse.singular_values(model, "value-output")[1, 2], sigma, atol=1e-5)
    query, key = attention.c_attn.weight[:, 32:48], attention.c_attn.weight[:, 128 + 32 : 128 + 48]
    sigma = torch.linalg.svdvals((query @ key.T).double())[:16]
    assert torch.allclose(analyse.singular_values(model, "query-key")[1, 2], sigma, atol=1e-4)
    one, other = Head(0, 1), Head(0, 4)
    products = [a[h.head] @ b[h.head].T for h in (one, other) for a, b in [analyse.factors(model, "value-output")[0]]]
    cosine = torch.cosine_similarity(*(each.flatten() for each in products), dim=0)
    assert analyse.output_cosine(model, one, other) == pytest.approx(float(cosine), abs=1e-5)
    with pytest.raises(ValueError, match="part must be one of"):
        analyse.factors(model, "values")


def test_a_truncated_head_has_its_rank_and_full_rank_changes_nothing():
    model, head = truth.model(), planned(0, "third back")
    cut = analyse.with_ranks(model, {head: 3})
    before, after = (analyse.singular_values(each, "value-output")[0, head.head] for each in (model, cut))
    assert torch.allclose(after[:3], before[:3], atol=1e-4) and after[3:].max() < 1e-4
    whole = analyse.loss(analyse.with_ranks(model, {head: 16}), truth.batch())
    assert whole == pytest.approx(truth.whole(), abs=1e-5)
    assert analyse.loss(analyse.with_ranks(model, {head: 0}), truth.batch()) - truth.whole() > 5 * FLOOR
    for rank in (17, -1, 1.5, True):
        with pytest.raises(ValueError, match="whole number from 0 to 16"):
            analyse.with_ranks(model, {head: rank})


def test_map_distance_is_0_for_equal_maps_and_1_for_disjoint_ones():
    one = torch.eye(4)
    assert analyse.map_distance(one, one) == 0 and analyse.map_distance(one, one.roll(1, 0)) == 1
    with pytest.raises(ValueError, match="one shape"):
        analyse.map_distance(one, torch.eye(3))
