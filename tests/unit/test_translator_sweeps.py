"""The stored sweeps of the translator's heads are about the shipped model and agree with a fresh run at spot points."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import load as read_tensors

from tools.sweeps.translator_choices import PENALTIES as CHOSEN
from tools.sweeps.translator_choices import SEEDS
from tools.sweeps.translator_gate_seeds import RUNS
from tools.sweeps.translator_gates import NAME, PENALTIES
from tools.sweeps.translator_heads import JUDGED, Judge
from utils.heads import Head, ablated, gated, heads_of
from utils.models import DATA, load, sha256
from utils.pruning import prune, random_order
from utils.sweeps import FOLDER, sweep


@pytest.fixture(scope="module")
def translator():
    return load("translator")


@pytest.mark.parametrize("name", ["translator_heads", NAME, "translator_choices", "translator_gate_seeds"])
def test_a_sweep_is_about_the_translator_in_data(name):
    assert sweep(name)["made"]["model"] == sha256(DATA / "translator" / "model.safetensors")


def test_losses_without_heads_are_those_of_a_fresh_run(translator):
    stored, judge = sweep("translator_heads"), Judge(translator.tokenizer, pairs=JUDGED)
    assert judge.nll(translator.model) == pytest.approx(stored["full"]["nll"], abs=1e-3)
    curve = [row for row in stored["curves"] if (row["kind"], row["order"]) == ("cross", "random")]
    row = next(row for row in curve if row["kept"] == 12)
    order = random_order(translator.model, row["seed"], kind="cross")
    with ablated(translator.model, order[:12]):
        assert judge.nll(translator.model) == pytest.approx(row["nll"], abs=1e-3)


def test_every_kind_has_every_order_at_every_share(translator):
    rows = sweep("translator_heads")["curves"]
    assert len(rows) == 4 * (2 + 3) * 11
    assert len(sweep("translator_heads")["one head out"]) == len(heads_of(translator.model)) == 96


@pytest.mark.parametrize("penalty", PENALTIES)
def test_gates_leave_the_heads_that_the_table_says(translator, penalty):
    row = next(row for row in sweep(NAME)["gates"] if row["penalty"] == penalty)
    gates = _tensors(penalty)["gates"]
    assert [list(place) for place in gates.nonzero().tolist()] == row["heads"] and len(row["heads"]) == row["kept"]
    steps = list(row["open at step"].values())
    assert steps[0] == 48 and steps == sorted(steps, reverse=True)


def test_the_tuned_layers_give_the_loss_of_the_table_gated_and_pruned(translator):
    penalty = 0.05
    row = next(row for row in sweep(NAME)["gates"] if row["penalty"] == penalty)
    stored, tuned = _tensors(penalty), load("translator").model
    gates = stored.pop("gates")
    stored.pop("log_alpha")
    missing, unexpected = tuned.load_state_dict({name: t.float() for name, t in stored.items()}, strict=False)
    assert not unexpected and not any(name.startswith("encoder.layers.") for name in missing)
    judge = Judge(translator.tokenizer, pairs=None)
    with torch.no_grad(), gated(tuned, {"encoder": gates}):
        assert judge.nll(tuned) == pytest.approx(row["nll"], abs=5e-3)
    closed = [Head(layer, head, "encoder") for layer, head in (gates == 0).nonzero().tolist()]
    small, few = prune(tuned, closed), Judge(translator.tokenizer, pairs=40)
    assert len(heads_of(small)) == 96 - 48 + row["kept"]
    with torch.no_grad(), gated(tuned, {"encoder": gates}), gated(small, {"encoder": gates}):
        assert few.nll(small) == pytest.approx(few.nll(tuned), abs=1e-4)


def _tensors(penalty: float) -> dict[str, torch.Tensor]:
    return read_tensors((FOLDER / NAME / f"penalty-{penalty:g}.safetensors").read_bytes())


def test_every_choice_is_there_as_often_as_the_gates_keep_heads():
    rows = sweep("translator_choices")["choices"]
    kept = {row["kept"] for row in sweep(NAME)["gates"] if row["penalty"] in CHOSEN}
    places = [(row["order"], row["seed"], row["kept"]) for row in rows]
    names = [("absolute", None), ("signed", None), *(("random", seed) for seed in range(SEEDS))]
    assert sorted(places, key=str) == sorted(
        [("control", None, 48), *((*name, count) for name in names for count in kept)], key=str
    )


def test_a_choice_before_tuning_is_that_of_a_fresh_run(translator):
    rows = sweep("translator_choices")["choices"]
    row = next(row for row in rows if (row["order"], row["seed"], row["kept"]) == ("random", 1, 10))
    order = random_order(translator.model, 1, kind="encoder")
    judge = Judge(translator.tokenizer, pairs=None)
    assert judge.nll(prune(translator.model, order[:38])) == pytest.approx(row["before"]["nll"], abs=1e-3)


def test_runs_of_gates_with_other_seeds_keep_what_their_rows_say():
    stored = sweep("translator_gate_seeds")
    assert [(row["seed"], row["tuned"]) for row in stored["runs"]] == list(RUNS)
    for row in stored["runs"]:
        assert len({tuple(head) for head in row["heads"]}) == row["kept"]
        steps = list(row["open at step"].values())
        assert steps[0] == 48 and steps == sorted(steps, reverse=True) and steps[-1] == row["kept"]


def test_gates_alone_leave_the_model_that_the_table_judges(translator):
    row = next(row for row in sweep("translator_gate_seeds")["runs"] if not row["tuned"])
    kept = {(layer, head) for layer, head in row["heads"]}
    closed = [head for head in heads_of(translator.model) if head.kind == "encoder" and head[:2] not in kept]
    judge = Judge(translator.tokenizer, pairs=None)
    with ablated(translator.model, closed):  # gates that stay open are 1, nearly
        assert judge.nll(translator.model) == pytest.approx(row["nll"], abs=0.02)
