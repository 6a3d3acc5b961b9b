"""Heads against parses: hand-made maps and arcs, chance, and what is refused."""

import pytest
import torch
from families import SENTENCE
from hypothesis import given, settings
from hypothesis import strategies as st

from utils.attention import attention_maps
from utils.measures import Arc, Parse, dependency_scores, head_roles
from utils.pruning import prune

WORDS = ["the", "old", "dog", "sees", "a", "cat"]
ARCS = [Arc(0, 2, "det"), Arc(4, 5, "det"), Arc(1, 2, "amod"), Arc(2, 3, "nsubj"), Arc(5, 3, "obj"), Arc(3, 3, "root")]
PARSE = Parse(WORDS, ARCS)


def pointing(*targets) -> torch.Tensor:
    """A map (1, 1, words, words) whose row i reads the word targets[i]."""
    return torch.eye(len(targets))[list(targets)][None, None]


def score(frame, relation, direction, head=0, column="share"):
    rows = frame[(frame["relation"] == relation) & (frame["direction"] == direction) & (frame["head"] == head)]
    return rows[column].item()


def test_hits_and_offsets_by_hand():
    governors = pointing(2, 2, 3, 3, 5, 3)
    previous = pointing(0, 0, 1, 2, 3, 4)
    frame = dependency_scores([torch.cat([governors, previous], dim=1)], [PARSE], least=1)
    assert list(frame.columns[:5]) == ["kind", "layer", "head", "relation", "direction"]
    assert set(frame["relation"]) == {"det", "amod", "nsubj", "obj"}  # a root is no arc
    for relation in ("det", "amod", "nsubj", "obj"):
        assert score(frame, relation, "to governor") == 1
    assert [score(frame, name, "to dependent") for name in ("det", "amod", "nsubj", "obj")] == [0, 0, 0, 0]
    assert score(frame, "nsubj", "to dependent", head=1) == 1
    assert score(frame, "det", "to dependent", head=1) == 0.5  # cat → a, but dog → old
    assert score(frame, "det", "to governor", column="arcs") == 2
    # The determiners stand 2 and 1 before their nouns: an offset hits one of two, and ties go to the nearer one.
    assert score(frame, "det", "to governor", column="baseline") == 0.5
    assert score(frame, "det", "to governor", column="baseline_offset") == 1
    assert score(frame, "det", "to dependent", column="baseline_offset") == -1
    assert score(frame, "det", "to governor", column="gain") == 0.5
    assert score(frame, "obj", "to governor", column="baseline_offset") == -2


def test_texts_add_up_and_rare_relations_are_left_out():
    maps = [pointing(2, 2, 3, 3, 5, 3), pointing(1, 1)]
    parses = [PARSE, Parse(["a", "cat"], [Arc(0, 1, "det")])]
    frame = dependency_scores(maps, parses, least=3)
    assert set(frame["relation"]) == {"det"} and set(frame["arcs"]) == {3}
    assert score(frame, "det", "to governor") == 1
    assert score(frame, "det", "to governor", column="baseline") == pytest.approx(2 / 3)
    with pytest.raises(ValueError, match="no relation has 4 arcs, the most frequent has 3"):
        dependency_scores(maps, parses, least=4)


def test_a_head_with_a_fixed_offset_gains_nothing():
    generator = torch.Generator().manual_seed(0)
    maps, parses = [], []
    for _ in range(40):  # governors one to three words ahead, at random
        governors = [min(i + int(torch.randint(1, 4, (), generator=generator)), 9) for i in range(9)]
        syntactic, shifted = pointing(*governors, 9), pointing(*range(1, 10), 9)
        chance = torch.rand(1, 10, 10, 10, generator=generator)
        maps.append(torch.cat([syntactic, shifted, chance], dim=1))
        parses.append(Parse(["w"] * 10, [Arc(i, governor, "dep") for i, governor in enumerate(governors)]))
    frame = dependency_scores(maps, parses)
    frame = frame[frame["direction"] == "to governor"].set_index("head")
    assert frame.loc[0, "share"] == 1 and frame.loc[0, "gain"] > 0.4
    assert frame.loc[1, "gain"] <= 0  # equal to the baseline if +1 is the best offset
    assert (frame.loc[2:, "gain"] < -0.1).all()
    assert frame.loc[2:, "share"].mean() == pytest.approx(0.1, abs=0.02)  # one word of ten


def test_a_row_of_zeros_hits_nothing():
    frame = dependency_scores([torch.zeros(1, 1, 2, 2)], [Parse(["a", "b"], [Arc(1, 0, "dep")])], least=1)
    assert (frame["share"] == 0).all()


def test_heads_that_were_removed_have_no_share(tiny_bert):
    """Their maps are NaN, which is neither a hit nor a miss."""
    both = torch.cat([pointing(2, 2, 3, 3, 5, 3), torch.full((1, 1, 6, 6), torch.nan)], dim=1)
    frame = dependency_scores([both], [PARSE], least=1)
    assert (frame["share"].isna() == (frame["head"] == 1)).all() and (
        frame["gain"].isna() == (frame["head"] == 1)
    ).all()
    pruned = prune(tiny_bert.model, [(0, 1)])
    maps = attention_maps(pruned, tiny_bert.tokenizer, SENTENCE)["encoder"].without_special().words()
    parse = Parse(maps.queries, [Arc(1, 0, "a"), Arc(2, 1, "a")])
    scores = dependency_scores([maps], [parse], least=1)
    roles = head_roles(pruned, tiny_bert.tokenizer, [SENTENCE], syntactic=scores).set_index(["layer", "head"])
    assert roles["syntactic_share"].isna().sum() == 1 and roles.loc[(0, 1), "role"] == "unlabelled"


@pytest.mark.parametrize("arc", [(True, 0, "det"), (0, 1, None), (0, 1, 3), (0.0, 1, "det"), ("0", 1, "det")])
def test_arcs_of_other_types_are_refused(arc):
    with pytest.raises((TypeError, ValueError), match=r"parses\[0\]"):
        dependency_scores([pointing(2, 2, 3, 3, 5, 3)], [Parse(WORDS, [arc])], least=1)


def test_maps_of_a_model_and_stored_parses_give_a_syntactic_head(tiny_bert):
    """Thresholds low enough for random weights: it is the way through the tables that is tested."""
    maps = attention_maps(tiny_bert.model, tiny_bert.tokenizer, SENTENCE)["encoder"].without_special().words()
    words = ["The", "cat", "sat", "on", "the", "mat", "."]
    parse = Parse(words, [Arc(0, 1, "det"), Arc(4, 5, "det"), Arc(1, 2, "nsubj"), Arc(5, 3, "pobj")])
    scores = dependency_scores([maps], [parse], least=1)
    assert len(scores) == 3 * 4 * 3 * 2 and set(scores["kind"]) == {"encoder"}
    roles = head_roles(tiny_bert.model, tiny_bert.tokenizer, [SENTENCE], syntactic=scores, margin=-1, rarest=9, share=9)
    assert (roles["role"] == "syntactic").all()
    with pytest.raises(ValueError, match=r"parses\[0\], word 1: the parse has 'dog', the map 'cat'"):
        dependency_scores([maps], [parse._replace(words=["The", "dog", *words[2:]])])
    with pytest.raises(ValueError, match=r"maps\[0\] holds special tokens: take .without_special\(\).words\(\)"):
        dependency_scores([attention_maps(tiny_bert.model, tiny_bert.tokenizer, SENTENCE)["encoder"]], [parse])


def test_maps_and_parses_that_do_not_belong_together_are_refused():
    maps = pointing(2, 2, 3, 3, 5, 3)
    for bad, message in (
        (([], []), "0 maps need as many parses and at least one"),
        (([maps], []), "1 maps need as many parses and at least one, got 0"),
        (([maps, maps.repeat(1, 2, 1, 1)], [PARSE] * 2), r"maps\[1\] has other layers or heads"),
        (([maps[0]], [PARSE]), r"self-attention \(layers, heads, words, words\), got the shape \(1, 6, 6\)"),
        (([maps[..., :3]], [PARSE]), r"got the shape \(1, 1, 6, 3\)"),
        (([maps], [Parse(WORDS[:3], ARCS)]), r"parses\[0\] has 3 words, its map 6"),
        (([maps], [Parse(WORDS, [Arc(0, 6, "det")])]), "word 6 of an arc does not exist: words are 0 to 5"),
        (([maps], [Parse(WORDS, [Arc(-1, 0, "det")])]), "word -1 of an arc does not exist"),
    ):
        with pytest.raises(ValueError, match=message):
            dependency_scores(*bad)
    with pytest.raises(TypeError, match=r"maps\[0\] must be AttentionMaps or a tensor, got list"):
        dependency_scores([[[1.0]]], [PARSE])
    for bad in (Parse(WORDS, [(0, 1)]), ARCS, None, Parse(WORDS, None)):
        with pytest.raises(TypeError, match=r"parses\[0\] must be Parse\(words, arcs\)"):
            dependency_scores([maps], [bad])


@settings(deadline=None, max_examples=30)
@given(st.data(), st.integers(1, 3), st.integers(1, 3), st.integers(2, 6))
def test_shares_are_shares_for_any_shape_and_parse(data, layers, heads, n):
    word = st.integers(0, n - 1)
    arcs = data.draw(st.lists(st.tuples(word, word, st.sampled_from("ab")), min_size=1, max_size=8))
    weights = torch.rand(layers, heads, n, n, generator=torch.Generator().manual_seed(n))
    if all(dependent == governor for dependent, governor, _ in arcs):
        with pytest.raises(ValueError, match="the most frequent has 0"):
            dependency_scores([weights], [Parse(["w"] * n, arcs)], least=1)
        return
    frame = dependency_scores([weights], [Parse(["w"] * n, arcs)], least=1)
    kinds = {relation for dependent, governor, relation in arcs if dependent != governor}
    assert len(frame) == layers * heads * len(kinds) * 2
    for column in ("share", "baseline"):
        assert frame[column].between(0, 1).all()
    assert (frame["baseline"] > 0).all()
