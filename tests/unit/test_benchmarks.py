"""Benchmarks: operations counted alike under both backends, variants in turn, bars in the exit code."""

from __future__ import annotations

import json

import pandas as pd
import pytest
import torch

from tools.benchmarks import __main__ as command
from tools.benchmarks.measure import Report, flops, ratios, take_turns
from utils.heads import heads_of
from utils.pruning import prune


def test_operations_are_counted_alike_under_both_backends_and_follow_the_formula(make):
    whole = make("bert", add_pooling_layer=False).model
    whole.pooler = None
    ids = torch.randint(5, 100, (2, 16))
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    half = prune(whole, [head for head in heads_of(whole) if head.head % 2])
    for backend in ("eager", "sdpa"):
        for model, heads in ((whole, 4), (half, 2)):
            model.set_attn_implementation(backend)
            projections = 4 * 32 * 8 * heads + 2 * 32 * 48
            assert flops(model, inputs) == 3 * 2 * 2 * (16 * projections + 2 * 16 * 16 * 8 * heads)


def test_variants_take_turns_and_warm_up_rounds_do_not_count():
    calls = []
    seconds = take_turns({name: lambda name=name: calls.append(name) for name in "ab"}, repeats=2)
    assert calls == list("ababab") and [len(each) for each in seconds.values()] == [2, 2]
    assert ratios([2.0, 4.0, 9.0], [1.0, 1.0, 1.0]) == (4.0, 2.0, 9.0)


@pytest.mark.parametrize("kept", [True, False])
def test_a_missed_bar_is_in_the_exit_code(monkeypatch, capsys, tmp_path, kept):
    report = Report(pd.DataFrame({"seconds": [0.5]}), "a note", {"at least 2": kept})
    monkeypatch.setattr(command, "BENCHMARKS", {"one": lambda repeats: report})
    monkeypatch.setattr(torch, "set_num_threads", lambda count: None)
    assert command.main(["one", "--out", str(tmp_path / "out.json")]) == (0 if kept else 1)
    assert ("kept" if kept else "MISSED") + ": at least 2" in capsys.readouterr().out
    assert json.loads((tmp_path / "out.json").read_text())["tables"]["one"] == [{"seconds": 0.5}]
    with pytest.raises(SystemExit):
        command.main(["two"])
