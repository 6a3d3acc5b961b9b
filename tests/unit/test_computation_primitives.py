"""Chapter 9: readings of learning curves, its stored runs, and what its exercises answer to likely mistakes."""

from __future__ import annotations

import math

import pandas as pd
import pytest

from tools.sweeps import computation_primitives, intrinsic_dimension, topic_tuning, transplants
from tools.sweeps.rows import KEY, with_rates
from utils import primitives_exercises as graded
from utils import primitives_results as results
from utils.models import MINILM_SHA256
from utils.sweeps import sweep


def examples_at(sizes, accuracies, target):
    return results.examples_needed(sizes, accuracies, target)


def linear(sizes, accuracies, target):
    i = next((i for i, a in enumerate(accuracies) if a >= target), None)
    if i is None:
        return math.inf
    share = (target - accuracies[i - 1]) / (accuracies[i] - accuracies[i - 1])
    return sizes[i - 1] + share * (sizes[i] - sizes[i - 1])


WRONG = [
    (graded.reads_across, linear, "rises with log n"),
    (
        graded.reads_across,
        lambda s, a, t: next((n for n, x in zip(s, a, strict=True) if x >= t), math.inf),
        "next size",
    ),
    (graded.reads_across, lambda s, a, t: [n for n, x in zip(s, a, strict=True) if x < t][-1], "last size below"),
    (graded.reads_across, lambda s, a, t: math.log(examples_at(s, a, t)), "go back to examples"),
    (graded.reads_across, lambda s, a, t: min(examples_at(s, a, t), s[-1]), "never reached"),
    (graded.reads_across, lambda s, a, t: math.inf if t >= a[-1] else examples_at(s, a, t), "at the target is enough"),
    (graded.reads_across, lambda s, a, t: math.inf if t < a[0] else examples_at(s, a, t), "at its first size"),
    (graded.counts_adapters, lambda n, m, w, r: n * m * w * w, "LoRA trains A and B"),
    (graded.counts_adapters, lambda n, m, w, r: n * m * r * w, "both trained"),
    (graded.counts_adapters, lambda n, m, w, r: n * 2 * r * w, "each matrix"),
    (graded.counts_adapters, lambda n, m, w, r: m * 2 * r * w, "every layer"),
    (graded.finds_d90, lambda a, f: min(d for d in a if a[d] >= 0.9 * max(a.values())), "not of the best d"),
    (graded.finds_d90, lambda a, f: min((d for d in a if a[d] >= 0.9), default=math.inf), "not an accuracy of 0.9"),
    (graded.finds_d90, lambda a, f: min((d for d in a if a[d] >= f), default=math.inf), "need not reach all"),
    (graded.finds_d90, lambda a, f: next((d for d in a if a[d] >= 0.9 * f), math.inf), "need not be sorted"),
]


def d90(accuracies, full):
    return min((d for d in accuracies if accuracies[d] >= 0.9 * full), default=math.inf)


def test_right_answers_pass():
    graded.reads_across(examples_at)
    graded.counts_adapters(lambda n, m, w, r: 2 * n * m * r * w)
    graded.finds_d90(d90)


@pytest.mark.parametrize(("checks", "wrong", "message"), WRONG)
def test_a_likely_mistake_is_named(checks, wrong, message):
    with pytest.raises(AssertionError, match=message):
        checks(wrong)


def test_steps_to_a_target_lie_between_the_two_readings():
    assert results.reached([0.2, 0.6, 0.9], 0.7, 10) == pytest.approx(20 + 10 / 3)
    assert results.reached([0.8], 0.7, 10) == 10
    assert results.reached([0.2, 0.3], 0.7, 10) == math.inf
    with pytest.raises(ValueError, match="0 points"):
        results.reached([], 0.7, 10)


def test_examples_needed_are_read_across_in_log_n():
    assert results.examples_needed([10, 1000], [0.2, 0.4], 0.3) == pytest.approx(100)
    assert results.examples_needed([10, 1000], [0.2, 0.4], 0.5) == math.inf
    with pytest.raises(ValueError, match="rising sizes"):
        results.examples_needed([10, 10], [0.2, 0.4], 0.3)


def test_other_seeds_take_the_rate_that_the_first_chose_by_validation():
    rows: list[dict] = []
    for setting in with_rates([({"body": "a"}, (0.1, 0.2))], 3, rows):
        rows.append(setting | {"validation": setting["learning_rate"], "test": 1 - setting["learning_rate"]})
    assert [(row["seed"], row["learning_rate"]) for row in rows] == [(0, 0.1), (0, 0.2), (1, 0.2), (2, 0.2)]


@pytest.mark.parametrize("name", results.SWEEPS)
def test_stored_runs_are_about_the_shipped_model_and_of_one_rate_a_setting(name):
    assert sweep(name)["made"]["model"] == MINILM_SHA256
    table = results.complete(name)
    assert table.groupby(list(results.SETTING))["learning_rate"].nunique().max() == 1
    assert not table.duplicated(list(KEY)).any() and not table["diverged"].any()


@pytest.mark.parametrize(
    ("name", "script", "where"),
    [
        ("topic_tuning", topic_tuning, {"rung": "LoRA", "examples": 40}),
        ("intrinsic_dimension", intrinsic_dimension, {"rung": "d = 100", "body": "pretrained"}),
        ("transplants", transplants, {"body": "words, Q, K, V", "task": "topics"}),
        ("computation_primitives", computation_primitives, {"rung": "+ positions", "examples": 50}),
    ],
)
def test_a_stored_run_can_be_made_again(name, script, where):
    content = sweep(name)
    rows = [dict(zip(content["columns"], row, strict=True)) for row in content["rows"]]
    row = next(row for row in rows if all(row[key] == value for key, value in where.items()))
    found = script.run({key: row[key] for key in KEY})
    assert found["test"] == pytest.approx(row["test"], abs=0.05)
    assert found["trained"] == row["trained"] or name == "transplants"


def test_an_unknown_sweep_is_refused():
    with pytest.raises(ValueError, match="got 'nothing'"):
        results.complete("nothing")


def test_the_chosen_rate_is_one_that_ran_with_most_seeds(monkeypatch):
    fixed = {"task": "t", "body": "b", "rung": "r", "examples": 1, "input_scale": 0, "read": 0, "steps": 1}
    rows = [(0, 0.1, 0.5), (0, 0.2, 0.9), (1, 0.1, 0.5)]
    table = pd.DataFrame([fixed | {"seed": s, "learning_rate": r, "validation": v, "test": v} for s, r, v in rows])
    monkeypatch.setattr(results, "sweep_table", lambda name: table)
    assert results.complete("topic_tuning")["learning_rate"].tolist() == [0.1, 0.1]
