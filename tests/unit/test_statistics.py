"""Statistics of heads and attention rollout, against slow references."""

import math

import numpy as np
import pandas as pd
import pytest
import torch
from families import SENTENCE, TARGET, same, state

from utils.attention import AttentionMaps, attention_maps, head_statistics, rollout, statistics
from utils.measures import positional_heads, roles

TEXTS = ["The cat sat on the mat.", "hi", "One thing is certain, and the rest is lies; the flower dies."]


def slow_statistics(maps: AttentionMaps, special: str = "keep") -> pd.DataFrame:
    """The same numbers for one text, row by row in plain Python."""
    rows = []
    causal = maps.kind == "decoder"
    ordinary = [i for i, mark in enumerate(maps.special_keys.tolist()) if not mark]
    reads = [i for i, mark in enumerate(maps.special_queries.tolist()) if not mark]
    sinks = [i for i, mark in enumerate(maps.special_keys.tolist()) if mark] or [0]
    for layer in range(maps.weights.shape[0]):
        for head in range(maps.weights.shape[1]):
            full = maps.weights[layer, head].double().numpy()
            found = {"entropy": [], "normalized": [], "distance": [], "sink": [], "best": [], "offset": []}
            for i in reads:
                row = full[i].copy()
                if special == "drop":
                    row[[j for j in range(len(row)) if j not in ordinary]] = 0
                    row = row / row.sum() if row.sum() else row
                entropy = -sum(p * math.log(p) for p in row if p > 0)
                keys = ordinary if special == "drop" else range(len(row))
                readable = sum(1 for j in keys if j <= i or not causal)
                found["entropy"].append(entropy)
                if readable > 1:
                    found["normalized"].append(entropy / math.log(readable))
                if maps.special_keys.any() or i > 0 or maps.kind == "cross":
                    found["sink"].append(full[i, sinks].sum())
                found["distance"].append(sum(p * abs(i - j) for j, p in enumerate(row)))
                found["best"].append(max(ordinary, key=lambda j: full[i, j]) - i)  # noqa: B023
                found["offset"].append([row[i + o] if 0 <= i + o < len(row) else 0.0 for o in range(-3, 4)])
            share = {o: found["best"].count(o) / len(reads) for o in range(-16, 17)}
            best = max(share, key=share.get)
            record = {"kind": maps.kind, "layer": layer, "head": head, "tokens": len(reads)}
            record["entropy"] = np.mean(found["entropy"])
            record["normalized_entropy"] = np.mean(found["normalized"]) if found["normalized"] else np.nan
            record["sink_share"] = np.mean(found["sink"]) if found["sink"] else np.nan
            if maps.kind != "cross":
                record |= {"distance": np.mean(found["distance"]), "best_offset_share": share[best]}
                record |= {f"offset_{o}": v for o, v in zip(range(-3, 4), np.mean(found["offset"], 0), strict=True)}
                record |= {f"argmax_{o}": share[o] for o in range(-3, 4)}
                record["self_share"] = record["offset_0"]
            rows.append(record)
    return pd.DataFrame(rows)


@pytest.mark.parametrize("special", ["keep", "drop"])
def test_statistics_equal_a_slow_reference(family, special):
    targets = [TARGET] * len(TEXTS) if family.target else None
    frame = head_statistics(family.model, family.tokenizer, TEXTS, targets, special=special, per_text=True)
    for index, text in enumerate(TEXTS):
        maps = attention_maps(family.model, family.tokenizer, text, family.target)
        expected = pd.concat([slow_statistics(each, special) for each in maps.values()], ignore_index=True)
        found = frame[frame["text"] == index].reset_index(drop=True)
        pd.testing.assert_frame_equal(found[expected.columns], expected, check_dtype=False, rtol=0, atol=1e-5)


def test_a_text_has_the_same_statistics_alone_and_in_company(family):
    targets = [TARGET, "A"] if family.target else None
    both = head_statistics(family.model, family.tokenizer, ["hi", SENTENCE * 2], targets, per_text=True)
    alone = head_statistics(family.model, family.tokenizer, ["hi"], targets and targets[:1], per_text=True)
    both = both[both["text"] == 0].reset_index(drop=True)
    pd.testing.assert_frame_equal(both, alone, check_dtype=False, rtol=0, atol=1e-5)


def test_all_texts_together_are_the_mean_over_their_tokens(tiny_bert):
    frame = head_statistics(tiny_bert.model, tiny_bert.tokenizer, TEXTS)
    single = head_statistics(tiny_bert.model, tiny_bert.tokenizer, TEXTS, per_text=True)
    assert len(frame) == 12
    assert list(frame.columns[:5]) == ["kind", "layer", "head", "group", "tokens"]
    for _, row in frame.iterrows():
        part = single[(single["layer"] == row["layer"]) & (single["head"] == row["head"])]
        assert row["tokens"] == part["tokens"].sum()
        for column in ("entropy", "distance", "sink_share", "self_share", "offset_-1", "argmax_1"):
            assert row[column] == pytest.approx(np.average(part[column], weights=part["tokens"]), abs=1e-9)


def test_small_batches_give_the_same_numbers(family, monkeypatch):
    targets = ["A", TARGET, "It"] if family.target else None
    expected = head_statistics(family.model, family.tokenizer, TEXTS, targets)
    monkeypatch.setattr(statistics, "BATCH_BYTES", 1)
    found = head_statistics(family.model, family.tokenizer, TEXTS, targets)
    pd.testing.assert_frame_equal(found, expected, rtol=0, atol=1e-5)


def test_the_model_is_as_it_was(family, capfd):
    family.model.to(torch.bfloat16).train()
    before = state(family.model)
    head_statistics(family.model, family.tokenizer, [SENTENCE, "word " * 100])
    same(before, state(family.model))
    assert capfd.readouterr() == ("", "")


def test_an_encoder_decoder_reports_its_encoder_and_with_targets_all_three_kinds(make):
    family = make("bart")
    encoder = head_statistics(family.model, family.tokenizer, TEXTS)
    assert encoder["kind"].unique().tolist() == ["encoder"]
    whole = head_statistics(family.model, family.tokenizer, TEXTS, [TARGET] * 3)
    assert whole["kind"].value_counts().to_dict() == {"encoder": 12, "decoder": 4, "cross": 4}
    pd.testing.assert_frame_equal(
        whole[whole["kind"] == "encoder"].reset_index(drop=True), encoder, check_dtype=False, rtol=0, atol=1e-5
    )
    cross = whole[whole["kind"] == "cross"]
    assert cross[["distance", "self_share", "best_offset", "offset_1"]].isna().all(axis=None)
    assert cross[["entropy", "sink_share", "normalized_entropy"]].notna().all(axis=None)


def test_cut_texts_are_named(tiny_bert):
    frame = head_statistics(tiny_bert.model, tiny_bert.tokenizer, ["hi", "the " * 100])
    assert frame.attrs["notices"] == ["texts[1]: kept 64 of 102 tokens, because the model takes no more"]


@pytest.mark.parametrize(
    "texts, error, words",
    [
        ("hi", TypeError, "put a single text into brackets"),
        ([], ValueError, "texts is empty"),
        (["hi", ""], ValueError, r"texts\[1\] is empty"),
        (["hi", None], TypeError, r"texts\[1\] must be one str, got NoneType"),
        (3, TypeError, "texts must be a list of str"),
    ],
)
def test_texts_are_checked(tiny_bert, texts, error, words):
    with pytest.raises(error, match=words):
        head_statistics(tiny_bert.model, tiny_bert.tokenizer, texts)


def test_targets_and_options_are_checked(tiny_bert, make):
    bart = make("bart")
    with pytest.raises(ValueError, match="2 texts need as many targets, got 1"):
        head_statistics(bart.model, bart.tokenizer, ["a", "b"], ["c"])
    with pytest.raises(ValueError, match="leave targets out"):
        head_statistics(tiny_bert.model, tiny_bert.tokenizer, ["a"], ["c"])
    with pytest.raises(ValueError, match='"keep" or "drop", got \'none\''):
        head_statistics(tiny_bert.model, tiny_bert.tokenizer, ["a"], special="none")


def test_minilm_has_heads_that_read_a_neighbour_and_heads_that_are_sinks(minilm):
    from utils.corpora import passages

    frame = head_statistics(*minilm, passages(12))
    positional = positional_heads(frame)
    assert [tuple(row) for row in positional[["layer", "head", "best_offset"]].to_numpy()] == [(0, 2, -1), (1, 8, 1)]
    assert (roles(frame) == "sink").sum() >= 5


def test_an_untrained_minilm_has_neither(minilm):
    from utils.corpora import passages
    from utils.models import untrained

    frame = head_statistics(untrained(minilm.model), minilm.tokenizer, passages(4))
    assert (roles(frame) == "unlabelled").all()


def slow_rollout(weights, fuse, residual):
    layers = []
    for layer in weights:
        fused = fuse(layer, axis=0)
        fused = fused / fused.sum(axis=1, keepdims=True)
        step = residual * np.eye(len(fused)) + (1 - residual) * fused
        layers.append(step if not layers else step @ layers[-1])
    return np.stack(layers)


@pytest.mark.parametrize("fusion, fuse", [("mean", np.mean), ("max", np.max), ("min", np.min)])
@pytest.mark.parametrize("residual", [0.0, 0.5, 0.8])
def test_rollout_equals_a_numpy_reference(fusion, fuse, residual):
    weights = torch.rand(4, 3, 6, 6, generator=torch.Generator().manual_seed(0)).softmax(-1)
    found = rollout(weights, fusion, residual)
    assert torch.allclose(
        found, torch.tensor(slow_rollout(weights.double().numpy(), fuse, residual)).float(), atol=1e-6
    )
    assert torch.allclose(found.sum(-1), torch.ones(4, 6))


def test_rollout_of_maps(family):
    maps = attention_maps(family.model, family.tokenizer, SENTENCE, family.target)
    for kind, each in maps.items():
        if kind == "cross":
            with pytest.raises(ValueError, match="rollout needs self-attention"):
                rollout(each)
            continue
        found = rollout(each)
        assert found.shape == (len(each.layers), len(each.queries), len(each.keys))
        assert torch.allclose(found.sum(-1), torch.ones(found.shape[:2]), atol=1e-5)
        assert kind == "encoder" or (found.triu(1) == 0).all()


def test_rollout_with_nothing_in_common_between_heads_keeps_the_skip_connection_only():
    heads = torch.stack([torch.eye(3), torch.eye(3).roll(1, 0)])[None]
    assert torch.equal(rollout(heads, "min"), torch.eye(3)[None])


@pytest.mark.parametrize(
    "change, words",
    [
        ({"fusion": "median"}, "one of mean, max, min, got 'median'"),
        ({"residual": 1.5}, "from 0 to 1, got 1.5"),
        ({"maps": torch.zeros(2, 3, 4, 5)}, r"got the shape \(2, 3, 4, 5\)"),
        ({"maps": torch.zeros(3, 4, 4)}, "rollout needs self-attention"),
    ],
)
def test_rollout_refuses_what_it_cannot_use(change, words):
    with pytest.raises(ValueError, match=words):
        rollout(**({"maps": torch.full((2, 3, 4, 4), 0.25)} | change))
