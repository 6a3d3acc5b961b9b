"""The tiny model, its task, its scores, and the paths through it."""

from __future__ import annotations

import pytest
import torch

from utils import circuits
from utils import induction as ind
from utils.heads import gated


def drawn(batch: int = 8, seed: int = 0) -> dict[str, torch.Tensor]:
    return ind.repeats(batch)(torch.Generator().manual_seed(seed))


def copies(tokens: list[int]) -> torch.Tensor:
    """Keys behind an earlier copy, with loops."""
    n = len(tokens)
    found = torch.zeros(n, n, dtype=torch.bool)
    for i in range(n):
        for j in range(1, i + 1):
            found[i, j] = tokens[j - 1] == tokens[i]
    return found


def test_texts_repeat_a_segment_of_random_length_and_score_what_can_be_known():
    batch = drawn(200)
    sizes = (~batch["scored"]).sum(1)  # places 1 … size
    assert sizes.min() == 8 and sizes.max() == 20 and len(sizes.unique()) == 13
    for tokens, size in zip(batch["input_ids"][:20], sizes[:20].tolist(), strict=True):
        assert torch.equal(tokens[size:], tokens[:-size])


@pytest.mark.parametrize("length", [20, 41])
def test_texts_of_another_length_are_refused(length):
    with pytest.raises(ValueError, match="21 to 40"):
        ind.repeats(length=length)


def test_scores_equal_loops():
    batch = drawn(4, seed=1)
    weights = torch.rand(4, 3, 40, 40, generator=torch.Generator().manual_seed(2)).tril()
    found, places, by_hand = ind.induction_score(weights, batch), 0, torch.zeros(3)
    for text in range(4):
        counts = copies(batch["input_ids"][text].tolist())
        assert torch.equal(ind.follows_a_copy(batch["input_ids"])[text], counts)
        for i in range(39):
            if batch["scored"][text, i]:
                by_hand += (weights[text, :, i] * counts[i]).sum(-1)
                places += 1
    torch.testing.assert_close(found, by_hand / places)
    shift = torch.eye(6).roll(-1, 1)  # each row reads the key before
    assert ind.previous_score(shift) == pytest.approx(1.0) and ind.previous_score(torch.eye(6)) == 0


def test_the_future_is_not_seen_and_a_seed_fixes_the_weights():
    model, same, other = (ind.TinyModel(seed=seed) for seed in (3, 3, 4))
    ids = drawn(2)["input_ids"]
    changed = ids.clone()
    changed[:, 30] = (changed[:, 30] + 1) % 64
    before, after = model(ids).logits, model(changed).logits
    torch.testing.assert_close(before[:, :30], after[:, :30])
    assert not torch.allclose(before[:, 30:], after[:, 30:])
    assert torch.equal(before, same(ids).logits) and not torch.allclose(before, other(ids).logits)
    assert sum(p.numel() for p in model.parameters()) == pytest.approx(42_000, rel=0.02)


def test_weights_asked_for_do_not_change_the_logits():
    model, ids = ind.TinyModel(mlp=True), drawn(2)["input_ids"]
    read = model(ids, need_weights=True)
    torch.testing.assert_close(read.logits, model(ids).logits, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(read.attentions[1].sum(-1), torch.ones(2, 4, 40))


def test_training_learns_and_leaves_closed_heads_as_they_were():
    model, start = ind.TinyModel(seed=5), ind.TinyModel(seed=5)
    gates = torch.ones(2, 4)
    gates[0, 1] = 0
    history, seen = ind.train(model, seed=1, steps=20, gates=gates)
    assert len(seen) == 3 and seen[-1].loss < seen[0].loss - 0.1 and history.best == 20
    for name in ("query", "value"):
        now, then = (getattr(m.blocks[0].attention, name).weight for m in (model, start))
        assert torch.equal(now[16:32], then[16:32]) and not torch.equal(now[:16], then[:16])


def test_when_the_task_is_found():
    assert ind.found_at([0.1, 0.4, 0.51, 0.9]) == 20 and ind.found_at([0.1, 0.2]) is None


def test_one_head_out_is_the_rise_of_the_loss():
    model, batch = ind.TinyModel(seed=6), drawn(4)
    gates = torch.ones(2, 4)
    gates[1, 2] = 0
    with torch.no_grad():
        whole = ind.next_token_loss(model(**batch), batch)
        with gated(model, gates):
            out = ind.next_token_loss(model(**batch), batch)
    assert float(ind.one_head_out(model, batch)[1, 2]) == pytest.approx(float(out - whole), abs=1e-6)


def test_a_cut_path_of_no_heads_changes_nothing_and_all_three_are_a_gate_for_the_second_layer():
    model, ids = ind.TinyModel(seed=7), drawn(3)["input_ids"]
    whole = model(ids, need_weights=True)
    for into in circuits.INTO:
        same = circuits.cut_path(model, ids, [], into)
        torch.testing.assert_close(same.logits, whole.logits, rtol=1e-4, atol=1e-5)
        cut = circuits.cut_path(model, ids, [0, 2], into)
        maps_move = not torch.allclose(cut.attentions[0], whole.attentions[1], atol=1e-4)
        assert maps_move == (into != "value") and not torch.allclose(cut.logits, whole.logits, atol=1e-3)


@pytest.mark.parametrize(
    ("heads", "into", "message"),
    [([0], "output", "query, key, value"), ([4], "key", "0 to 3"), ([-1], "key", "0 to 3")],
)
def test_paths_that_do_not_exist_are_refused(heads, into, message):
    with pytest.raises(ValueError, match=message):
        circuits.cut_path(ind.TinyModel(), drawn(1)["input_ids"], heads, into)


def test_effects_by_role_of_a_model_that_only_reads_its_own_token():
    """Heads closed: nothing but the token itself can matter."""
    model = ind.TinyModel(seed=8)
    with gated(model, torch.zeros(2, 4)):
        found = circuits.effects_by_role(model, texts=16)
    assert found["effect"].drop("the token itself").abs().max() < 1e-6
    assert found["layer 0"]["the token itself"] > 0
    with pytest.raises(ValueError, match="3 to 20"):
        circuits.effects_by_role(model, segment=21)


def test_tables_of_a_model_agree_with_its_gates():
    model, batch = ind.TinyModel(seed=9), drawn(16)
    table, paths = circuits.ablation_table(model, batch), circuits.path_table(model, batch)
    gates = torch.ones(2, 4)
    gates[1] = 0
    assert table.loc["layer 1", "none"] == ind.accuracy(model, batch, gates)
    assert table["whole"].nunique() == 1 and (table["one out, worst"] <= 1).all()
    cut = circuits.cut_path(model, batch["input_ids"], [2], "key")
    lost = table.loc["layer 0", "whole"] - ind.accuracy_of(cut.logits, batch)
    assert paths.loc["head 2", "key"] == lost and list(paths.index)[-1] == "all heads"


def test_halfway_is_where_half_of_the_own_rise_is_passed():
    assert ind.halfway([0.2, 0.3, 0.5, 0.6]) == 20 and ind.halfway([1, 0.7, 0.3, 0], every=1) == 2
    with pytest.raises(ValueError, match="got 0.5 at both ends"):
        ind.halfway([0.5, 0.7, 0.5])


def test_accuracy_by_followers_counts_as_loops_do():
    model, batch = ind.TinyModel(seed=1), drawn(64)
    guesses = model(batch["input_ids"]).logits.argmax(-1)
    right = {"one": [], "several": []}
    for tokens, scored, guess in zip(batch["input_ids"].tolist(), batch["scored"], guesses, strict=True):
        for i in scored.nonzero()[:, 0].tolist():
            followed = {tokens[j + 1] for j in range(i) if tokens[j] == tokens[i]}
            right["one" if len(followed) == 1 else "several"].append(int(guess[i]) == tokens[i + 1])
    found = circuits.accuracy_by_followers(model, batch)
    assert found == pytest.approx({name: sum(each) / len(each) for name, each in right.items()})
    assert len(right["several"]) > 20


def test_weight_back_adds_diagonals():
    model, batch = ind.TinyModel(layers=1, seed=1), drawn(4)
    with torch.no_grad():
        weights = model(**batch, need_weights=True).attentions[0]
    exact = sum(weights[..., i, i - d].mean() for i in range(4, 40) for d in range(2, 5)) / 36
    assert circuits.weight_back(model, batch, 2, 4) == pytest.approx(float(exact), rel=1e-5)
    with pytest.raises(ValueError, match="got 4 and 40"):
        circuits.weight_back(model, batch, 4, 40)
