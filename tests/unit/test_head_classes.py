"""Offsets of the greatest weight, heads chosen on one half, tuned translators, and who survives."""

from __future__ import annotations

import math

import pandas as pd
import pytest
import torch

from tools.sweeps.translator_heads import Judge
from utils import head_classes as hc
from utils.attention import attention_maps
from utils.dependencies import Arc, Parse, dependency_scores
from utils.heads import Head, ablated
from utils.models import load, untrained
from utils.parses import Parsed, parsed_sentences
from utils.sweeps import sweep

TEXT = "The old key opens the front door"


@pytest.fixture(scope="module")
def translator():
    return load("translator")


def test_neighbour_shares_are_those_counted_in_the_map_by_hand(minilm):
    frame = hc.neighbour_shares(minilm.model, minilm.tokenizer, [TEXT]).set_index(["layer", "head"])
    weights = attention_maps(minilm.model, minilm.tokenizer, TEXT)["encoder"].weights
    n = weights.shape[-1]
    for (layer, head), row in frame.iterrows():
        rows = weights[layer, head, 1:-1]
        inner = [int(each[1:-1].argmax()) + 1 - i for i, each in enumerate(rows, start=1)]
        every = [int(each.argmax()) - i for i, each in enumerate(rows, start=1)]
        for name, offset in hc.NEIGHBOURS.items():
            assert row[name] == pytest.approx(inner.count(offset) / (n - 2))
            assert row[name + "_all"] == pytest.approx(every.count(offset) / (n - 2))


def test_neighbour_shares_ignore_padding(minilm):
    short = "A short text"
    alone = hc.neighbour_shares(minilm.model, minilm.tokenizer, [short])
    long = hc.neighbour_shares(minilm.model, minilm.tokenizer, [TEXT])
    both = hc.neighbour_shares(minilm.model, minilm.tokenizer, [short, TEXT])
    names = list(hc.NEIGHBOURS)
    mean = (3 * alone[names] + 7 * long[names]) / 10
    pd.testing.assert_frame_equal(both[names], mean)


def test_word_maps_have_the_words_of_the_parses(minilm, translator):
    for loaded, name in ((minilm, "passages"), (translator, "translation")):
        sentences = parsed_sentences(name, 3)
        for maps, sentence in zip(hc.word_maps(*loaded, sentences), sentences, strict=True):
            assert maps.kind == "encoder" and maps.queries == sentence.parse.words


def test_the_target_of_a_translator_does_not_change_its_encoder(translator):
    (sentence,) = parsed_sentences("translation", 1)
    (maps,) = hc.word_maps(*translator, [sentence])
    own = attention_maps(*translator, sentence.text)["encoder"].without_special().words()
    assert torch.allclose(maps.weights, own.weights)


def made(hits: list[float]) -> tuple[list[torch.Tensor], list[Parsed]]:
    """Maps of two heads and parses with one arc each, 2 → 0: a number is the head that hits it."""
    maps, sentences = [], []
    for right in hits:
        weights = torch.full((1, 2, 4, 4), 0.1)
        weights[0, 0, 2, 0 if right == 0 else 1] = 0.9
        weights[0, 1, 2, 0 if right == 1 else 1] = 0.9
        maps.append(weights)
        sentences.append(Parsed("a b c d", Parse(["a", "b", "c", "d"], [Arc(2, 0, "dobj")])))
    return maps, sentences


def test_a_head_is_chosen_on_one_half_and_measured_on_the_other():
    maps, sentences = made([0, 0, 0, 1] + [1, 1, 1, 0])
    found = hc.on_halves(maps, sentences, least=1)
    governor = found[found["direction"] == "to governor"].set_index("fold")
    assert governor["head"].tolist() == [0, 1]  # the best of the half that chooses
    assert governor["share"].tolist() == [0.25, 0.25]  # and what it is worth on the other
    assert governor["baseline"].tolist() == [1.0, 1.0] and governor["gain"].tolist() == [-0.75, -0.75]
    assert governor["gain_chosen"].tolist() == [-0.25, -0.25]


def test_halves_agree_with_dependency_scores(minilm):
    sentences = parsed_sentences("passages", 8)
    maps = hc.word_maps(*minilm, sentences)
    found = hc.on_halves(maps, sentences, least=3)
    other = dependency_scores(maps[4:], [each.parse for each in sentences[4:]], least=3)
    place = ["relation", "direction", "layer", "head"]
    merged = found[found["fold"] == 0].merge(other, on=place, suffixes=("", "_there"))
    assert len(merged) > 3
    assert merged["gain"].tolist() == pytest.approx(merged["gain_there"].tolist())


def test_only_the_heads_asked_for_are_chosen():
    maps, sentences = made([0, 0, 0, 0])
    found = hc.on_halves(maps, sentences, least=1, heads=[(0, 1)])
    assert set(found["head"]) == {1}
    with pytest.raises(ValueError, match="none of the heads"):
        hc.on_halves(maps, sentences, least=1, heads=[(3, 0)])


@pytest.mark.parametrize("count", [0, 1])
def test_halves_need_two_sentences(count):
    maps, sentences = made([0] * count)
    with pytest.raises(ValueError, match="two at least"):
        hc.on_halves(maps, sentences)


def test_maps_without_a_sentence_are_refused():
    maps, sentences = made([0, 0, 0])
    with pytest.raises(ValueError, match="as many maps as sentences"):
        hc.on_halves(maps, sentences[:2])


def test_tuned_layers_are_put_into_a_copy(translator):
    before = {name: tensor.clone() for name, tensor in translator.model.state_dict().items()}
    tuned, gates = hc.tuned_by_gates(translator.model, 0.05)
    assert gates.shape == (6, 8) and (gates > 0).sum() == 10
    changed = {name for name, tensor in tuned.state_dict().items() if not torch.equal(tensor, before[name])}
    assert changed and all(name.startswith("encoder.layers.") for name in changed)
    assert all(torch.equal(tensor, before[name]) for name, tensor in translator.model.state_dict().items())
    with pytest.raises(ValueError, match="0.005, 0.01, 0.02, 0.05, 0.1"):
        hc.tuned_by_gates(translator.model, 0.5)


def test_survivors_are_counted_beside_the_hypergeometric_chance():
    roles = pd.Series(["a"] * 3 + ["b"] * 7, index=pd.MultiIndex.from_product([range(2), range(5)]))
    table = hc.survivors(roles, [(0, 0), (0, 1), (0, 1), (1, 4)])
    assert table["kept"].to_dict() == {"b": 1, "a": 2} and table["heads"].to_dict() == {"b": 7, "a": 3}
    assert table.loc["a", "expected"] == pytest.approx(0.9)
    ways = math.comb(3, 2) * 7 + math.comb(3, 3)
    assert table.loc["a", "chance"] == pytest.approx(ways / math.comb(10, 3))
    assert hc.survivors(roles, [(0, 0)]).loc["b", "chance"] == 1.0  # at least none
    with pytest.raises(ValueError, match="has no role"):
        hc.survivors(roles, [(7, 0)])


def test_no_head_of_an_untrained_model_looks_at_a_neighbour(minilm):
    texts = [each.text for each in parsed_sentences("passages", 10)]
    frame = hc.neighbour_shares(untrained(minilm.model), minilm.tokenizer, texts)
    assert frame[["previous", "next"]].to_numpy().max() < 0.3


@pytest.mark.parametrize("size", [1, 5])
def test_word_maps_are_those_of_attention_maps_one_by_one(minilm, translator, size):
    for loaded, name, target in ((minilm, "passages", {}), (translator, "translation", {"target": "Ja."})):
        sentences = parsed_sentences(name, 7)
        for maps, each in zip(hc.word_maps(*loaded, sentences, size=size), sentences, strict=True):
            other = attention_maps(*loaded, each.text, **target)["encoder"].without_special().words()
            assert maps.layers == other.layers and maps.keys == other.keys
            assert torch.allclose(maps.weights, other.weights, atol=1e-5)
            assert torch.allclose(maps.dropped, other.dropped, atol=1e-5)


def test_a_syntactic_head_passes_on_both_halves():
    assert hc.syntactic_heads(*made([0] * 8), least=1).empty  # no better than the offset, which hits all arcs
    maps, sentences = varied(both=False)
    assert hc.syntactic_heads(maps, sentences, least=1).empty
    found = hc.syntactic_heads(*varied(both=True), least=1)
    assert found[["relation", "direction", "layer", "head"]].to_numpy().tolist() == [["dobj", "to governor", 0, 0]]
    assert found["gain"].tolist() == pytest.approx([0.5])
    assert hc.syntactic_heads(*varied(both=True), least=1, margin=0.6).empty
    assert hc.syntactic_heads(*varied(both=True, relation="punct"), least=1).empty


def varied(*, both: bool, relation: str = "dobj") -> tuple[list[torch.Tensor], list[Parsed]]:
    """Arcs at two offsets, half of them each. Head 0 hits all of them in the first half, and in the second if both."""
    maps, sentences = [], []
    for index in range(8):
        governor = index % 2  # arcs 2 → 0 and 2 → 1
        weights = torch.full((1, 2, 4, 4), 0.1)
        weights[0, 0, 2, governor if both or index < 4 else 3] = 0.9
        weights[0, :, [0, 1], 3] = 0.9
        weights[0, 1, 2, 3] = 0.9
        maps.append(weights)
        sentences.append(Parsed("a b c d", Parse(["a", "b", "c", "d"], [Arc(2, governor, relation)])))
    return maps, sentences


def grammar(count: int = 80) -> tuple[list[torch.Tensor], list[Parsed]]:
    """Head 0 reads the noun from the determiner, head 1 the object from the preposition; arcs at two offsets each."""
    maps, sentences = [], []
    for index in range(count):
        noun, thing = 1 + index % 2, 4 + index % 2
        weights = torch.full((1, 3, 6, 6), 0.01)
        weights[0, :, :, 0] = 0.5  # otherwise the first word
        weights[0, 0, 0, noun] = weights[0, 1, 3, thing] = 0.9
        arcs = [Arc(0, noun, "det"), Arc(thing, 3, "pobj"), Arc(5, 5, "ROOT")]
        maps.append(weights)
        sentences.append(Parsed("a b c d e f", Parse(list("abcdef"), arcs)))
    return maps, sentences


def test_the_best_functions_are_those_of_the_heads_that_are_kept():
    shares = pd.DataFrame(
        {
            "kind": ["encoder"] * 3 + ["decoder"],
            "layer": 0,
            "head": [0, 1, 2, 0],
            "previous": [0.2, 0.5, 0.9, 1.0],
            "next": [0.7, 0.1, 0.3, 1.0],
        }
    )
    maps, sentences = grammar()
    all_ = hc.best_functions(maps, sentences, shares, [(0, 0), (0, 1), (0, 2)])
    gains = {"determiner to noun, gain": 0.5, "preposition to object, gain": 0.5}
    assert all_ == pytest.approx({"previous token": 0.9, "next token": 0.7} | gains)
    second = hc.best_functions(maps, sentences, shares, [[0, 1]])
    gains["determiner to noun, gain"] = -0.5  # it hits none, and the best offset half of them
    assert second == pytest.approx({"previous token": 0.5, "next token": 0.1} | gains)


def test_orders_rise_in_the_stored_importance_of_all_encoder_heads():
    scores = {(r["kind"], r["layer"], r["head"]): r for r in sweep("translator_heads")["importance"]}
    orders = hc.translator_orders()
    assert list(orders) == ["absolute", "signed"]
    for name, order in orders.items():
        assert len(set(order)) == 48 and {head.kind for head in order} == {"encoder"}
        values = [scores["encoder", head.layer, head.head][name] for head in order]
        assert values == sorted(values) and values[0] < values[-1]


def test_paths_hold_what_the_sweeps_say():
    paths = {path.name: path for path in hc.translator_paths()}
    assert list(paths) == ["gates, tuned", "importance, tuned", "importance", "random"]
    stored, gates = sweep("translator_gates"), paths["gates, tuned"]
    assert gates.kept.tolist() == [48, 45, 30, 10, 6] and gates.value[0] == stored["full"]["bleu"]
    for row in stored["gates"][1:]:
        step = gates.kept.tolist().index(row["kept"])
        assert gates.value[step] == row["bleu"]
        assert [list(place) for place in zip(*gates.masks[step].nonzero(), strict=True)] == row["heads"]
    tuned, plain = paths["importance, tuned"], paths["importance"]
    after = {r["kept"]: r["after"]["bleu"] for r in sweep("translator_choices")["choices"] if r["order"] == "absolute"}
    assert dict(zip(tuned.kept.tolist(), tuned.value.tolist(), strict=True)).items() >= after.items()
    for smaller, larger in zip(plain.masks[1:], plain.masks, strict=False):
        assert not (smaller & ~larger).any()  # heads go, none comes back
    rows = [r for r in sweep("translator_heads")["curves"] if r["kind"] == "encoder"]
    by_hand = {r["kept"]: r["bleu"] for r in rows if r["order"] == "absolute"}
    assert plain.value.tolist() == [by_hand[kept] for kept in plain.kept.tolist()]
    drawn = [[r["bleu"] for r in rows if r["order"] == "random" and r["kept"] == kept] for kept in paths["random"].kept]
    assert paths["random"].masks is None and paths["random"].null
    assert paths["random"].low.tolist() == [min(each) for each in drawn]
    assert paths["random"].value.tolist() == pytest.approx([sum(each) / 3 for each in drawn], abs=0.006)


def test_the_heads_of_the_tuned_importance_path_are_those_that_were_tuned(translator):
    path = next(each for each in hc.translator_paths() if each.name == "importance, tuned")
    row = next(r for r in sweep("translator_choices")["choices"] if (r["order"], r["kept"]) == ("absolute", 10))
    mask = path.masks[path.kept.tolist().index(10)]
    gone = [Head(layer, head, "encoder") for layer, head in zip(*(~mask).nonzero(), strict=True)]
    with ablated(translator.model, gone):
        assert Judge(translator.tokenizer, pairs=None).nll(translator.model) == pytest.approx(
            row["before"]["nll"], abs=1e-3
        )
