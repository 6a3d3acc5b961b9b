"""The checks of chapter 8 let right answers through, and name the mistakes of wrong ones."""

from __future__ import annotations

import pytest

from utils import transfer_exercises as exercises
from utils.exercises import PASSED, check


def fold(weight, bias, gamma, beta):
    return weight * gamma, bias + weight @ beta


def group(name):
    return "LayerNorm" if "ln_" in name else "positions" if name.startswith("wpe") else "frozen"


def fair(runs):
    means = runs.groupby("rate")[["validation", "test"]].mean()
    return float(means.loc[means["validation"].idxmax(), "test"])


def fair_in_python(runs):
    rates = sorted(set(runs["rate"]))
    known = {rate: [row for row in runs.to_dict("records") if row["rate"] == rate] for rate in rates}
    best = max(rates, key=lambda rate: sum(row["validation"] for row in known[rate]))
    return sum(row["test"] for row in known[best]) / len(known[best])


RIGHT = [
    (exercises.folds_a_norm, fold),
    (exercises.folds_a_norm, lambda w, b, g, s: [(g[:, None] * w.T).T, b + (w * s).sum(1)]),
    (exercises.finds_the_groups, group),
    (exercises.is_fair, fair),
    (exercises.is_fair, fair_in_python),
]


@pytest.mark.parametrize(("test", "answer"), RIGHT)
def test_a_right_answer_passes_and_a_stub_is_not_attempted(test, answer):
    assert check("8", answer, test).status == PASSED
    assert check("8", lambda *_: None, test).status == "not attempted yet"


def chosen_by(score):
    """Report the mean test accuracy of the rate whose runs have the largest ``score``."""

    def attempt(runs):
        best = max(runs.groupby("rate"), key=lambda pair: score(pair[1].sort_values("seed")))
        return best[1]["test"].mean()

    return attempt


def at_best(runs):
    means = runs.groupby("rate")["validation"].mean()
    return runs[runs["rate"] == means.idxmax()]


WRONG = {
    exercises.folds_a_norm: [
        (lambda w, b, g, s: (w * g[:, None], b + w @ s), "these are the rows"),
        (lambda w, b, g, s: (b + w @ s, w * g), "the new weight first"),
        (lambda w, b, g, s: (w @ g, b + w @ s), "the new weight first"),
        (lambda w, b, g, s: ((w * g).T, b + w @ s), "transposed"),
        (lambda w, b, g, s: (w, b + w @ s), "as before"),
        (lambda w, b, g, s: (w / g, b + w @ s), "multiply by gamma"),
        (lambda w, b, g, s: (w * g, b + s), "before it is added"),
        (lambda w, b, g, s: (w * g, b + w * g @ s), "without gamma"),
        (lambda w, b, g, s: (w * g, w * g @ s), "is lost, and beta"),
        (lambda w, b, g, s: (w * g, w @ s), "the old bias is lost"),
        (lambda w, b, g, s: (w * g, b), "the bias moves, too"),
        (lambda w, b, g, s: (w * g, b + s @ w), "not beta W"),
        (lambda w, b, g, s: (w * g, b - w @ s), "is added"),
        (lambda w, b, g, s: w * g, "return two things"),
        (lambda w, b, g, s: (w * g[: len(w), None] if len(w) > 4 else w * g, b + w @ s), "stopped with RuntimeError"),
    ],
    exercises.finds_the_groups: [
        (lambda name: group(name).lower(), "is no group"),
        (lambda name: "input" if name.startswith("wte") else group(name), "is no group"),
        (lambda name: "frozen" if name.startswith("wpe") else group(name), "position embeddings are trained"),
        (lambda name: "positions" if name.startswith("wte") else group(name), "words are not used"),
        (lambda name: "frozen" if "ln_f" in name else group(name), "the final one"),
        (lambda name: group(name) if "weight" in name else "frozen", "beta is called bias"),
        (lambda name: "LayerNorm" if "bias" in name else group(name), "other biases"),
        (lambda name: "positions" if "p" in name and "ln_" not in name else group(name), "only wpe holds positions"),
        (lambda name: "positions" if "wpe" in name or "mlp" in name else group(name), "only wpe holds positions"),
        (lambda name: "frozen" if "ln_2" in name else group(name), "50, not 26"),
        (lambda name: "frozen" if "ln_" in name and name > "h.1" and name[0] == "h" else group(name), "50, not 6"),
        (lambda name: _swapped(name), "LayerNorms are ln_1, ln_2 and ln_f"),
    ],
    exercises.is_fair: [
        (chosen_by(lambda runs: runs["test"].mean()), "chosen by the test set"),
        (chosen_by(lambda runs: runs["validation"].max()), "chosen by the test set, or by the one best run"),
        (chosen_by(lambda runs: (runs["validation"] + runs["test"]).mean()), "chosen by the test set"),
        (chosen_by(lambda runs: (runs["validation"] - runs["test"]).mean()), "chosen by a single seed"),
        (chosen_by(lambda runs: runs["validation"].iloc[0]), "chosen by the test set, or by the one best run"),
        (chosen_by(lambda runs: runs["validation"].iloc[1]), "chosen by a single seed"),
        (chosen_by(lambda runs: runs["validation"].iloc[-1]), "chosen by the test set, or by the one best run"),
        (chosen_by(lambda runs: runs["validation"].min()), "chosen by a single seed"),
        (chosen_by(lambda runs: -runs["rate"].iloc[0]), "rate 0.0001"),
        (chosen_by(lambda runs: runs["rate"].iloc[0]), "rate 0.01"),
        (chosen_by(lambda runs: runs["rate"].iloc[0] == 1e-3), "rate 0.001"),
        (lambda runs: runs["test"].max(), "best single run"),
        (lambda runs: runs["test"].mean(), "mean of all rates"),
        (lambda runs: runs.groupby("rate")["validation"].mean().idxmax(), "that is the rate"),
        (lambda runs: runs.groupby("rate")["validation"].mean().max(), "flatters"),
        (lambda runs: at_best(runs)["test"].max(), "best seed of the right rate"),
        (lambda runs: runs.loc[runs.groupby("seed")["validation"].idxmax(), "test"].mean(), "rate of its own"),
        (lambda runs: runs.groupby("rate")["test"].mean(), "of type Series"),
    ],
}


def _swapped(name):
    """50 of them, but another bias in place of one β."""
    others = {"h.3.ln_2.bias": "frozen", "h.3.mlp.c_fc.bias": "LayerNorm"}
    return others.get(name, group(name))


@pytest.mark.parametrize(
    ("test", "answer", "message"), [(test, *pair) for test, pairs in WRONG.items() for pair in pairs]
)
def test_a_wrong_answer_learns_what_is_wrong(test, answer, message):
    result = check("8", answer, test)
    assert result.status == "not yet right" and message in result.message, result
