"""Roles of heads: shares against a slow reference, chance against maps made by chance, labels by hand, MiniLM."""

import math
from collections import Counter

import numpy as np
import pandas as pd
import pytest
import torch
from families import SENTENCE, TARGET
from hypothesis import given, settings
from hypothesis import strategies as st

from utils import roles as rules
from utils.attention import attention_maps, head_statistics
from utils.attention.inputs import encode_target, longest
from utils.attention.statistics import Reading, _masks
from utils.attention.tokens import Encoded, encode
from utils.corpora import passages
from utils.measures import confidence, head_roles, positional_heads, roles, token_counts
from utils.models import untrained

TEXTS = ["hi", SENTENCE, "The dog and the cat and the mat, the old mat: 12 rare words."]


def ids_of(family, text, target):
    source = encode(family.tokenizer, text, longest(family.model, family.tokenizer))
    return {"source": source.ids, "target": encode_target(family.model, family.tokenizer, target).ids if target else []}


def mean(values):
    return np.mean(values) if values else math.nan


def reference(family, texts, target, counts):
    """The columns of head_roles, text by text and row by row."""
    found = {}
    for text in texts:
        ids = ids_of(family, text, target)
        for maps in attention_maps(family.model, family.tokenizer, text, target).values():
            side = "target" if target and maps.kind == "decoder" else "source"
            for layer, head in np.ndindex(maps.weights.shape[:2]):
                rows = found.setdefault((maps.kind, layer, head), {})
                for query in range(len(maps.queries)):
                    if maps.special_queries[query]:
                        continue
                    for name, value in row_of(maps, layer, head, query, ids[side], counts):
                        rows.setdefault(name, []).append(value)
    names = ("rarest_share", "rarest_null", "rarest_two_share", "rarest_two_null", "best_offset_null")
    names += ("confidence", "confidence_null")
    return pd.DataFrame(
        [
            dict(zip(("kind", "layer", "head"), place, strict=True))
            | {name: mean(rows.get(name, [])) for name in names}
            for place, rows in found.items()
        ]
    )


def row_of(maps, layer, head, query, ids, counts):
    row = maps.weights[layer, head, query].tolist()
    readable = range(query + 1) if maps.kind == "decoder" else range(len(maps.keys))
    keys = [key for key in readable if not maps.special_keys[key]]
    if maps.kind != "cross":
        yield "best_offset_null", 1 / len(keys)
    yield "confidence", max(row[key] for key in keys)
    yield "confidence_null", 1 / len(readable)
    if len(keys) < 2:
        return
    best = max(keys, key=row.__getitem__)
    kinds = sorted(counts[number] for number in {ids[key] for key in keys})
    for name, limit in (("rarest", kinds[0]), ("rarest_two", kinds[min(1, len(kinds) - 1)])):
        rare = [key for key in keys if counts[ids[key]] <= limit]
        yield f"{name}_share", best in rare
        yield f"{name}_null", len(rare) / len(keys)


def test_shares_equal_a_slow_reference_in_padded_batches(family):
    counts = token_counts(family.tokenizer, passages(20), [TARGET])
    targets = [family.target] * len(TEXTS) if family.target else None
    found = head_roles(family.model, family.tokenizer, TEXTS, targets, counts=counts)
    expected = reference(family, TEXTS, family.target, counts.tolist())
    pd.testing.assert_frame_equal(found[expected.columns], expected, check_dtype=False, rtol=0, atol=1e-5)


def test_counts_leave_special_tokens_out(tiny_bert):
    counts = token_counts(tiny_bert.tokenizer, [SENTENCE, SENTENCE], [TARGET])
    pieces = tiny_bert.tokenizer.tokenize(SENTENCE) * 2 + tiny_bert.tokenizer.tokenize(TARGET)
    expected = Counter(tiny_bert.tokenizer.convert_tokens_to_ids(pieces))
    assert {number: counts[number].item() for number in expected} == expected
    assert counts.shape == (len(tiny_bert.tokenizer),) and counts.sum() == len(pieces)
    assert token_counts(tiny_bert.tokenizer, []).sum() == 0
    assert token_counts(tiny_bert.tokenizer, ["[CLS] [SEP]"]).sum() == 0
    for texts in ((SENTENCE,), ([SENTENCE], TARGET)):
        with pytest.raises(TypeError, match="must be lists of str, got str: put a single text into brackets"):
            token_counts(tiny_bert.tokenizer, *texts)


def test_uniform_attention_has_the_null_values_of_sink_and_confidence(make):
    for name in ("bert", "bart"):
        family = make(name)
        for path, parameter in family.model.named_parameters():
            if "query" in path or "q_proj" in path:
                parameter.data.zero_()
        frame = head_roles(family.model, family.tokenizer, TEXTS, [TARGET] * 3 if family.target else None)
        assert frame["sink_share"].to_numpy() == pytest.approx(frame["sink_null"].to_numpy(), abs=1e-6)
        assert frame["confidence"].to_numpy() == pytest.approx(frame["confidence_null"].to_numpy(), abs=1e-6)
        assert not frame["role"].isin(["next token", "previous token", "sink"]).any()


def made_up(kind: str, ids: list[list[int]], weights: torch.Tensor) -> Reading:
    """A reading of texts whose first token is special."""
    texts = [
        Encoded(each, [""] * len(each), [None] * len(each), [True] + [False] * (len(each) - 1), []) for each in ids
    ]
    return Reading(kind, weights, texts, texts, *_masks(kind, texts, texts))


@pytest.mark.parametrize("kind", ["encoder", "decoder"])
def test_heads_that_choose_by_chance_have_the_null_shares(kind):
    """4,000 heads with independent random weights on two texts of unequal length."""
    generator = torch.Generator().manual_seed(0)
    ids = [[0, 1, 2, 2, 3, 4], [0, 3, 1, 1]]
    counts = torch.tensor([9.0, 8, 3, 2, 2])  # the tokens 3 and 4 are equally rare
    weights = torch.rand(2, 4000, 6, 6, generator=generator, dtype=torch.float64)
    weights[1, :, :, 4:] = 0
    reading = made_up(kind, ids, weights.tril() if kind == "decoder" else weights)
    found = {name: total.sum(0) / rows.sum(0) for name, (total, rows) in rules._shares(counts, 0)(reading).items()}
    for name in ("rarest", "rarest_two"):
        shares, null = found[f"{name}_share"], found[f"{name}_null"][0].item()
        assert 0 < null < 1
        assert shares.mean() == pytest.approx(null, abs=4 * shares.std().item() / 4000**0.5)
    if kind == "encoder":  # by hand: rows 5 × 2/5 and 3 × 1/3 of 8; two rarest 5 × 4/5 and 3 × 3/3
        assert found["rarest_null"][0] == pytest.approx((5 * 2 / 5 + 3 * 1 / 3) / 8)
        assert found["rarest_two_null"][0] == pytest.approx((5 * 2 / 5 + 3 * 3 / 3) / 8)
        assert found["offset_null"][0] == pytest.approx((5 / 5 + 3 / 3) / 8)
        assert found["sink_null"][0] == pytest.approx((5 / 6 + 3 / 4) / 8)
        assert found["confidence_null"][0] == pytest.approx((5 / 6 + 3 / 4) / 8)
        assert found["most_-1"][0] == pytest.approx((4 + 2) / 8)
        assert found["most_4"][0] == pytest.approx(1 / 8)
        assert found["most_-16"][0] == 0


def test_a_head_on_the_rarest_token_is_found_and_common_tokens_can_be_left_out():
    ids = [[0, 1, 2, 3], [0, 1, 1, 2]]
    counts = torch.tensor([0, 50, 9, 1])
    weights = torch.zeros(2, 1, 4, 4, dtype=torch.float64)
    weights[:, :, :, 3] = 1  # the last token is the rarest one of both texts
    found = rules._shares(counts, 0)(made_up("encoder", ids, weights))
    assert found["rarest_share"][0][:, 0].tolist() == found["rarest_share"][1][:, 0].tolist() == [3, 3]
    assert found["rarest_null"][0][:, 0].tolist() == pytest.approx([1, 1])
    # The two most frequent tokens are 1 and 2: the second text's rarest token is one of them.
    assert rules._shares(counts, 2)(made_up("encoder", ids, weights))["rarest_share"][1][:, 0].tolist() == [3, 0]


def test_a_row_that_gives_ordinary_tokens_nothing_hits_nothing():
    """The special token stands last, so that the first token, the rarest one, must not win an arg-max of zeros."""
    text = Encoded([0, 1, 2], [""] * 3, [None] * 3, [False, False, True], [])
    weights = torch.zeros(1, 1, 3, 3, dtype=torch.float64)
    weights[..., 2] = 1
    reading = Reading("encoder", weights, [text], [text], *_masks("encoder", [text], [text]))
    found = rules._shares(torch.tensor([1, 2, 0]), 0)(reading)
    assert found["rarest_share"][0].item() == 0 and found["rarest_share"][1].item() == 2
    assert found["confidence"][0].item() == 0


def test_confidence_equals_the_measure_on_one_text(family):
    frame = head_roles(family.model, family.tokenizer, [SENTENCE], family.target and [family.target])
    maps = attention_maps(family.model, family.tokenizer, SENTENCE, family.target)
    for kind, each in maps.items():
        expected = confidence(each.weights, each.special_keys, each.special_queries)
        found = frame.loc[frame["kind"] == kind, "confidence"]
        assert found.to_numpy() == pytest.approx(expected.flatten().numpy(), abs=1e-6)


def table(**columns) -> pd.DataFrame:
    return pd.DataFrame(columns)


def test_labels_follow_the_rules_in_order():
    frame = table(
        best_offset=[1.0, 1, 1, 1, math.nan],
        best_offset_share=[0.9, 0.5, 0.5, 0.5, math.nan],
        rarest_share=[0.9, 0.58, 0.4, 0.55, 0.58],
        rarest_null=[0.1, 0.1, 0.1, 0.3, 0.1],
        syntactic_share=[0.9, 0.9, 0.75, 0.5, math.nan],
        syntactic_null=[0.5, 0.5, 0.5, 0.45, math.nan],
        sink_share=[0.9, 0.9, 0.9, 0.9, 0.1],
    )
    assert roles(frame).tolist() == ["next token", "rare", "syntactic", "sink", "rare"]
    assert roles(frame, rarest=0.7, margin=0.3).tolist() == ["next token", "syntactic", "sink", "sink", "unlabelled"]
    assert roles(frame, share=0.95).tolist()[0] == "rare"
    without = frame.drop(columns=["rarest_share", "syntactic_share", "syntactic_null"])
    assert roles(without).tolist() == ["next token", "sink", "sink", "sink", "unlabelled"]


def test_syntactic_scores_join_the_table(tiny_bert):
    scores = pd.DataFrame(
        {"kind": "encoder", "layer": [0, 0, 1], "head": [1, 1, 2], "relation": ["obj", "nsubj", "det"]}
        | {"direction": "to governor", "share": [0.7, 0.9, 0.5], "baseline": [0.4, 0.8, 0.45]}
    )
    frame = head_roles(tiny_bert.model, tiny_bert.tokenizer, TEXTS, syntactic=scores).set_index(["layer", "head"])
    assert len(frame) == 12
    assert frame.loc[(0, 1), "syntactic_relation"] == "obj to governor"  # the greatest gain, not the greatest share
    assert frame.loc[(0, 1), ["syntactic_share", "syntactic_null"]].tolist() == [0.7, 0.4]
    assert (frame.loc[(0, 1), "role"], frame.loc[(0, 1), "passes"]) == ("syntactic", "syntactic")
    assert frame.loc[(1, 2), "role"] == "unlabelled" and frame["syntactic_share"].notna().sum() == 2
    with pytest.raises(ValueError, match="syntactic lacks the column 'baseline'"):
        head_roles(tiny_bert.model, tiny_bert.tokenizer, TEXTS, syntactic=scores.drop(columns="baseline"))


def test_every_rule_that_is_passed_is_named(tiny_bert):
    frame = head_roles(tiny_bert.model, tiny_bert.tokenizer, TEXTS, rarest=-9, sink=0)
    assert (frame["role"] == "rare").all() and (frame["passes"] == "rare, sink").all()


@settings(deadline=None, max_examples=20)
@given(st.one_of(st.lists(st.integers(1, 3), max_size=3), st.integers(-5, 10)))
def test_counts_and_common_that_do_not_fit_are_refused(given_):
    counts = torch.zeros(given_) if isinstance(given_, list) else torch.ones(4)
    common = 0 if isinstance(given_, list) else given_
    if counts.ndim == 1 and 0 <= common < len(counts):
        rules._shares(counts, common)
    else:
        with pytest.raises(ValueError, match=r"a number for each token id.*got the shape .* and common = "):
            rules._shares(counts, common)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"share": float("nan")}, "share must be a number such as 0.5, got nan"),
        ({"sink": "high"}, "sink must be a number"),
        ({"rarest": None}, "rarest must be a number"),
        ({"margin": [0.1]}, "margin must be a number"),
        ({"common": 1.5}, "common must be a whole number of tokens"),
        ({"counts": "many"}, "counts must be a tensor, as of token_counts, got str"),
        ({"counts": torch.full((500,), torch.nan)}, "counts must be finite"),
        ({"syntactic": 3}, "syntactic must be the table of dependency_scores, got int"),
        ({"texts": [None]}, "text must be one str, got NoneType"),
        ({"texts": [3]}, "text must be one str, got int"),
        ({"texts": ["a cat", "\ud800"]}, "half a surrogate pair"),
    ],
)
def test_options_and_texts_of_other_types_are_refused(tiny_bert, options, message):
    arguments = {"texts": ["the cat sat on the mat"]} | options
    with pytest.raises((TypeError, ValueError), match=message):
        head_roles(tiny_bert.model, tiny_bert.tokenizer, **arguments)


def test_counts_of_another_tokenizer_are_refused(tiny_bert):
    with pytest.raises(ValueError, match=r"counts end at token 2, the texts hold token \d+"):
        head_roles(tiny_bert.model, tiny_bert.tokenizer, TEXTS, counts=torch.ones(3))


def test_minilm_has_two_positional_heads_some_sinks_and_no_rare_word_head(minilm):
    frame = head_roles(*minilm, passages(16), counts=token_counts(minilm.tokenizer, passages())).set_index(
        ["layer", "head"]
    )
    positional = positional_heads(frame)
    assert list(positional.index) == [(0, 2), (1, 8)]
    assert positional["role"].tolist() == ["previous token", "next token"]
    assert (positional["best_offset_share"] >= 0.97 * positional["best_offset_most"]).all()
    assert positional["confidence"].tolist() == sorted(frame["confidence"], reverse=True)[:2]
    assert (frame["role"] == "sink").sum() >= 4 and (frame["role"] == "rare").sum() == 0
    rarest = frame["rarest_share"].idxmax()
    assert rarest in {(0, 9), (5, 7)}  # three to five times chance, and far from half of the rows
    assert 3 < frame.loc[rarest, "rarest_share"] / frame.loc[rarest, "rarest_null"]
    assert frame["rarest_share"].max() < 0.25
    assert frame["role"].isin(["unlabelled"]).sum() > 50


def test_random_weights_get_no_label(minilm):
    frame = head_roles(untrained(minilm.model), minilm.tokenizer, passages(6))
    assert (frame["role"] == "unlabelled").all()
    assert (frame["best_offset_share"] < 4 * frame["best_offset_null"]).all()
    assert frame["confidence"].to_numpy() == pytest.approx(frame["confidence_null"].to_numpy(), abs=0.01)


def test_a_column_of_ones_own_is_a_mean_over_rows_by_text_and_over_all(tiny_bert):
    def more(reading):
        """The weight of a row on itself, as ``self_share`` has it."""
        own = reading.weights.diagonal(0, -2, -1) * reading.reads[:, None]
        return {"own": (own.sum(-1), reading.reads.sum(-1, keepdim=True).expand(own.shape[:2]))}

    for per_text in (True, False):
        frame = head_statistics(tiny_bert.model, tiny_bert.tokenizer, TEXTS, per_text=per_text, more=more)
        assert frame["own"].to_numpy() == pytest.approx(frame["self_share"].to_numpy(), abs=1e-9)
        assert len(frame) == 12 * (3 if per_text else 1)
