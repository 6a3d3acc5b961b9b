"""The stored sweep of shared keys and values is about the shipped model; sharing lasts through training."""

from __future__ import annotations

import pytest
import torch

from tools.sweeps import shared_heads
from tools.sweeps.translator_heads import Judge
from utils.architectures import attentions
from utils.encoder_decoder import pair_batches
from utils.models import DATA, load, sha256
from utils.sweeps import sweep

PAIRS = [("Insert a text.", "Fügt einen Text ein."), ("Choose Format.", "Wählen Sie Format.")]


def test_the_sweep_is_about_the_translator_in_data_and_has_every_way():
    stored = sweep("shared_heads")
    assert stored["made"]["model"] == sha256(DATA / "translator" / "model.safetensors")
    assert {(row["way"], row["left"]) for row in stored["rows"]} >= set(shared_heads.WAYS)


def test_losses_before_tuning_are_those_of_a_fresh_run():
    model, tokenizer = load("translator")
    row = next(row for row in sweep("shared_heads")["rows"] if (row["way"], row["left"]) == ("share", 4))
    assert Judge(tokenizer).nll(shared_heads.shared(model, 4)) == pytest.approx(row["nll"], abs=1e-3)


def test_shared_heads_stay_shared_and_learn():
    model, tokenizer = load("translator-small-1")
    start = shared_heads.shared(model, 2)
    tuned = shared_heads.shared(model, 2)
    shared_heads.keep_shared(tuned, 2)
    optimizer = torch.optim.AdamW(tuned.parameters(), 1e-3)
    (batch,) = pair_batches(tokenizer, PAIRS)
    losses = []
    for _ in range(4):
        loss = tuned(**batch).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    for before, after in zip(attentions(start), attentions(tuned), strict=True):
        blocks = after.key.weight.detach().unflatten(0, (2, 4, -1))
        assert (before.key.weight - after.key.weight).abs().max() > 1e-4
        if after.kind in shared_heads.KINDS:
            assert torch.equal(blocks, blocks[:, :1].expand_as(blocks))


def test_removing_leaves_as_many_keys_as_sharing():
    model, tokenizer = load("translator-small-1")
    frame = shared_heads.importance(model, pair_batches(tokenizer, PAIRS), shared_heads.text_losses)
    for kept in (4, 2, 1):
        small = shared_heads.smaller(model, kept, frame)
        for kind in shared_heads.KINDS:
            assert sum(len(each.heads) for each in attentions(small) if each.kind == kind) == 3 * kept
