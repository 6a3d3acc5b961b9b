"""Measured peaks: the sweep says what the planner says today, and a point of each kind is measured again."""

from __future__ import annotations

import pytest

from utils import memory_peaks as peaks
from utils import planner
from utils.planner import BERT_BASE
from utils.sweeps import sweep

pytestmark = pytest.mark.usefixtures("one_thread")
STORED = sweep("memory_peaks")
ROWS = {kind: [row for row in STORED["bytes"] if row["kind"] == kind] for kind in ("inference", "cache", "training")}


def sizes_of(row: dict) -> planner.Architecture:
    """The architecture of a row of the sweep, without building the model."""
    shape = {"layers": row.get("layers", 1), "vocabulary": row.get("vocabulary", 1000)}
    options = {"width": 768, "heads": row.get("heads", 12), "positions": 512, "token_types": 2, "pooler": True}
    return planner.Architecture(**shape, **options).without_heads(row.get("removed", 0))


def test_the_sweep_says_what_made_it():
    made = STORED["made"]
    assert made["script"] == "python -m tools.sweeps.memory_peaks"
    assert (made["width"], made["tokens"], made["seed"]) == (768, 512, 0)
    assert {len(rows) >= 6 for rows in ROWS.values()} == {True}


def test_its_arithmetic_is_the_planners_of_today():
    for row in ROWS["inference"]:
        size = {"attention": row["attention"], "value_bytes": 2 if "dtype" in row else 4}
        assert row["planner"] == peaks.inference_by_planner(sizes_of(row), 512, row["batch"], **size)
    for row in ROWS["training"]:
        how = {"method": row["method"], "checkpointing": row["checkpointing"]}
        assert row["planner"] == peaks.training_by_planner(sizes_of(row), 512, row["batch"], **how)
    for row in ROWS["cache"]:
        sizes = planner.GPT2.with_heads(12, row["kv_heads"])
        assert row["planner"] == planner.kv_cache(sizes, 512, row["batch"], value_bytes=4)


def test_passes_are_exact_to_a_per_cent_and_training_holds_up_to_a_tenth_more():
    shares = {kind: [row["planner"] / row["measured"] for row in rows] for kind, rows in ROWS.items()}
    assert all(0.985 < share < 1.001 for share in shares["inference"])
    assert set(shares["cache"]) == {1.0}
    assert all(0.9 < share <= 1 for share in shares["training"])


@pytest.mark.parametrize("case", [{"heads": 24, "attention": "eager"}, {"heads": 12, "attention": "flash"}])
def test_a_pass_is_measured_again(case):
    (row,) = (r for r in ROWS["inference"] if case.items() <= r.items() and r["batch"] == 1 and "layers" not in r)
    model, sizes = peaks.encoder(**case)
    assert sizes == sizes_of(row)
    assert peaks.inference(model, 512) == pytest.approx(row["measured"], rel=0.002)


def test_a_pruned_pass_is_measured_again():
    (row,) = (row for row in ROWS["inference"] if row.get("removed") == 6)
    model, sizes = peaks.encoder(removed=6)
    assert peaks.weight_bytes(model) == 4 * planner.parameters(sizes).total
    assert peaks.inference(model, 512, 4) == pytest.approx(row["measured"], rel=0.002)


def test_a_training_step_is_measured_again():
    facts = {"method": "SGD float32", "batch": 1, "checkpointing": True, "layers": 2}
    (row,) = (row for row in ROWS["training"] if facts.items() <= row.items())
    model, _ = peaks.encoder(layers=2)
    found = peaks.training(model, 512, method="SGD float32", checkpointing=True)
    assert found == pytest.approx(row["measured"], rel=0.02)


def test_a_cache_is_measured_again():
    held, said = peaks.cache(3, 64, 2, layers=2)
    assert held == said == 2 * 2 * 64 * 2 * 192 * 4


def test_time_follows_the_operations_of_what_is_left():
    times = {(row["heads"], row["ffn_width"], row["attention"]): row for row in STORED["times"]}
    for (heads, f, attention), row in times.items():
        whole = times[12, 3072, attention]
        assert row["seconds"] / whole["seconds"] == pytest.approx(row["flops"] / whole["flops"], abs=0.05), (heads, f)
    assert times[12, 3072, "eager"]["flops"] == pytest.approx(planner.layer_flops(BERT_BASE, 512).total, rel=0.001)


def test_what_cannot_be_measured_is_refused():
    model, _ = peaks.encoder(heads=1, width=8, ffn_width=8)
    with pytest.raises(ValueError, match="method is 'LoRA mixed': measured are 'AdamW float32', 'SGD float32'"):
        peaks.training(model, 8, method="LoRA mixed")
    with pytest.raises(ValueError, match="attention is 'sdpa'"):
        peaks.encoder(attention="sdpa")
    with pytest.raises(ValueError, match="cannot remove 12 of 12"):
        peaks.encoder(removed=12, width=24, ffn_width=8)
