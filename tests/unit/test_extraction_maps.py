"""What can be done with maps: words, special tokens, one head, a table."""

import re

import numpy as np
import pytest
import torch
from families import SENTENCE
from hypothesis import given, settings
from hypothesis import strategies as st

from utils.attention import AttentionMaps, attention_maps, rollout


@pytest.fixture
def maps() -> AttentionMaps:
    """[CLS] un happy cat [SEP]: two layers, one head, hand-made rows."""
    rows = torch.tensor(
        [
            [0.2, 0.2, 0.2, 0.2, 0.2],
            [0.5, 0.1, 0.1, 0.2, 0.1],
            [0.1, 0.3, 0.3, 0.2, 0.1],
            [0.0, 0.0, 0.0, 0.9, 0.1],
            [1.0, 0.0, 0.0, 0.0, 0.0],
        ]
    )
    return AttentionMaps(
        weights=torch.stack([rows, rows])[:, None],
        queries=["[CLS]", "un", "happy", "cat", "[SEP]"],
        keys=["[CLS]", "un", "happy", "cat", "[SEP]"],
        layers=[1, 4],
        query_words=[None, 0, 0, 1, None],
        key_words=[None, 0, 0, 1, None],
        special_queries=torch.tensor([True, False, False, False, True]),
        special_keys=torch.tensor([True, False, False, False, True]),
        query_word_labels=["unhappy", "cat"],
        key_word_labels=["unhappy", "cat"],
    )


def test_words_are_a_mean_over_queries_and_a_sum_over_keys(maps):
    words = maps.words()
    assert words.queries == words.keys == ["[CLS]", "unhappy", "cat", "[SEP]"]
    expected = torch.tensor([[0.2, 0.4, 0.2, 0.2], [0.3, 0.4, 0.2, 0.1], [0, 0, 0.9, 0.1], [1, 0, 0, 0]])
    assert torch.allclose(words.weights[0, 0], expected)
    assert torch.allclose(words.weights.sum(-1), torch.ones(2, 1, 4))
    assert words.special_queries.tolist() == [True, False, False, True]
    assert words.query_words == [None, 0, 1, None]
    assert torch.equal(words.words().weights, words.weights)


def test_without_special_tokens_rows_are_renormalised_and_the_share_is_reported(maps):
    rest = maps.without_special()
    assert rest.queries == rest.keys == ["un", "happy", "cat"]
    expected = torch.tensor([[0.25, 0.25, 0.5], [0.375, 0.375, 0.25], [0, 0, 1]])
    assert torch.allclose(rest.weights[0, 0], expected)
    assert torch.allclose(rest.dropped, torch.full((2, 1), (0.6 + 0.2 + 0.1) / 3))
    assert maps.dropped is None
    assert torch.equal(rest.without_special().weights, rest.weights)
    assert torch.equal(rest.without_special().dropped, rest.dropped)


def test_words_and_special_tokens_can_be_taken_in_turn(maps):
    chain = maps.words().without_special()
    assert chain.queries == ["unhappy", "cat"]
    assert torch.allclose(chain.weights.sum(-1), torch.ones(2, 1, 2))
    assert torch.allclose(maps.without_special().words().weights.sum(-1), torch.ones(2, 1, 2))


def test_a_row_that_was_all_on_special_tokens_stays_zero_and_is_counted(maps):
    maps.weights[0, 0, 1] = torch.tensor([1.0, 0, 0, 0, 0])
    maps.weights[1, 0, 2] = torch.tensor([1 - 1e-5, 1e-5, 0, 0, 0])
    rest = maps.without_special()
    assert torch.equal(rest.weights[0, 0, 0], torch.zeros(3))
    assert torch.equal(rest.weights[1, 0, 1], torch.tensor([1.0, 0, 0]))
    assert "1 of 6 rows had all weight on special tokens and are left at zero" in rest.notices
    assert "1 of 6 rows had less than a thousandth of the weight left, which is scaled up" in rest.notices
    assert maps.notices == []


def test_nothing_but_special_tokens_is_refused(maps):
    maps.special_keys[:] = True
    with pytest.raises(ValueError, match="no ordinary token"):
        maps.without_special()


def test_a_head_is_found_by_the_layers_number_in_the_model(maps):
    assert torch.equal(maps.head(4, 0), maps.weights[1, 0])
    for place, error, words in [
        ((0, 0), ValueError, "layer 0 is not in these maps: they hold layers 1, 4"),
        ((1, 1), ValueError, "head 1 does not exist: layer 1 has heads 0 to 0"),
        ((1, -1), ValueError, "head -1 does not exist"),
        ((1, 0.0), TypeError, "head must be a whole number, got 0.0"),
        ((True, 0), TypeError, "layer must be a whole number, got True"),
    ]:
        with pytest.raises(error, match=words):
            maps.head(*place)


def test_the_table_has_a_row_for_each_weight(maps):
    frame = maps.to_frame()
    assert len(frame) == maps.weights.numel()
    assert list(frame) == ["layer", "head", "query", "key", "query_label", "key_label", "weight"]
    row = frame[(frame["layer"] == 4) & (frame["query"] == 3) & (frame["key"] == 4)].iloc[0]
    assert (row["query_label"], row["key_label"], round(row["weight"], 6)) == ("cat", "[SEP]", 0.1)


def test_a_table_that_would_be_too_large_is_refused():
    big = AttentionMaps(torch.zeros(6, 12, 300, 300), ["a"] * 300, ["a"] * 300)
    with pytest.raises(ValueError, match="6,480,000 rows"):
        big.to_frame()


def test_maps_made_by_hand_need_only_weights_and_labels():
    made = AttentionMaps(torch.full((1, 2, 2, 3), 1 / 3), ["a", "b"], ["c", "d", "e"], kind="cross")
    assert made.layers == [0]
    assert made.groups == [0, 1]
    assert made.words().keys == ["c", "d", "e"]
    assert repr(made) == "AttentionMaps(cross: 1 layer, 2 heads, 2 rows, 3 columns)"
    with pytest.raises(ValueError, match="2 queries, 2 keys"):
        AttentionMaps(torch.zeros(1, 2, 2, 3), ["a", "b"], ["c", "d"])


def test_special_tokens_take_a_third_of_minilms_attention_on_a_short_sentence(minilm):
    dropped = attention_maps(*minilm, SENTENCE)["encoder"].without_special().dropped
    assert dropped.shape == (6, 12)
    assert 0.37 < dropped.mean() < 0.66


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(data=st.data())
def test_rows_still_sum_to_one_for_any_grouping(data):
    n = data.draw(st.integers(1, 8))
    numbers = st.lists(st.floats(0.01, 10), min_size=n * n, max_size=n * n)
    weights = torch.tensor(data.draw(numbers)).view(1, 1, n, n)
    words = sorted(data.draw(st.lists(st.integers(0, 3), min_size=n, max_size=n)))
    words = [sorted(set(words)).index(word) for word in words]
    names = [str(each) for each in range(max(words) + 1)]
    special = torch.tensor(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    marked = [None if mark else word for word, mark in zip(words, special.tolist(), strict=True)]
    maps = AttentionMaps(
        weights=weights / weights.sum(-1, keepdim=True),
        queries=list("abcdefgh"[:n]),
        keys=list("abcdefgh"[:n]),
        query_words=marked,
        key_words=marked,
        special_queries=special,
        special_keys=special,
        query_word_labels=names,
        key_word_labels=names,
    )
    assert (maps.words().weights.sum(-1) - 1).abs().max() < 1e-5
    if not special.all():
        assert (maps.without_special().weights.sum(-1) - 1).abs().max() < 1e-5
        assert (maps.without_special().words().weights.sum(-1) - 1).abs().max() < 1e-5


HALF = [[[[0.5, 0.5], [0.5, 0.5]]]]  # one layer, one head, two tokens


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"layers": [0, 1]}, "1 layer, layers names"),
        ({"query_words": [0]}, "query_words must have an entry for each of the 2 queries, got 1"),
        ({"key_words": [0, 0, 1]}, "key_words must have an entry for each of the 2 keys, got 3"),
        ({"special_keys": [True]}, "special_keys must have an entry for each of the 2 keys, got 1"),
    ],
)
def test_maps_whose_parts_do_not_agree_are_refused(fields, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        AttentionMaps(torch.tensor(HALF), ["a", "b"], ["a", "b"], **fields)


def test_maps_may_be_made_of_arrays_lists_and_words_without_labels():
    mask, words = [True, False], [None, 0]
    maps = AttentionMaps(np.array(HALF, dtype=np.float32), ["a", "b"], ["a", "b"], special_keys=mask, key_words=words)
    assert maps.words().keys == ["a", "b"] and maps.without_special().keys == ["b"]
    merged = AttentionMaps(torch.tensor(HALF), ["a", "b"], ["a", "b"], query_words=[0, 0], key_words=[0, 0]).words()
    assert merged.queries == merged.keys == ["ab"] and merged.weights.flatten().tolist() == [1.0]


def test_rollout_takes_arrays_keeps_nan_and_refuses_a_dict():
    assert torch.equal(rollout(np.array(HALF)), rollout(torch.tensor(HALF)))
    assert rollout(torch.tensor(HALF) * torch.nan).isnan().all()
    with pytest.raises(TypeError, match=r"maps\['encoder'\]"):
        rollout({"encoder": AttentionMaps(torch.tensor(HALF), ["a", "b"], ["a", "b"])})
    with pytest.raises(ValueError, match="fusion must be one of"):
        rollout(torch.tensor(HALF), fusion=["mean"])
