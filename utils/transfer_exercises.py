"""Checks of the exercises on LayerNorm and transfer: each wrong answer that is likely has a message of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pandas as pd
import torch
from torch import Tensor
from transformers import GPT2Config, GPT2Model

KNOWN = ("LayerNorm", "positions", "frozen")
WIDE, TALL = (4, 4), (5, 4)  # W: square first, so that a mistake gives numbers and not an error of sizes


def folds_a_norm(attempt: Callable) -> None:
    """Exercise 8.1: ``attempt(weight, bias, gamma, beta)`` → the new weight (out, in) and the new bias (out,)."""
    gamma, beta = torch.tensor([[2.0, 0.5, -1.0, 3.0], [1.0, 0.5, 2.0, -1.0]])
    for shape in (WIDE, TALL):
        w, b = torch.arange(1.0, 1 + shape[0] * shape[1]).sin().view(shape), torch.arange(1.0, 1 + shape[0]).cos()
        found = attempt(w.clone(), b.clone(), gamma.clone(), beta.clone())
        pair = isinstance(found, tuple | list) and len(found) == 2
        assert pair, "return two things: the new weight, then the new bias"
        weight, shift = (torch.as_tensor(each) for each in found)
        sizes = f"{tuple(weight.shape)} and {tuple(shift.shape)}, not {shape} and {(shape[0],)}"
        assert weight.shape == w.shape and shift.shape == b.shape, f"{sizes}: the new weight first, then the new bias"
        if shape == WIDE:
            _unlike(weight, _wrong_weights(w, gamma))
        assert torch.allclose(weight, w * gamma), "column j of W times gamma[j]"
        _unlike(shift, _wrong_biases(w, b, gamma, beta) if shape == WIDE else {})
        assert torch.allclose(shift, b + w @ beta), "bias: b + W beta"


def _wrong_weights(w: Tensor, gamma: Tensor) -> dict[str, Tensor]:
    return {
        "gamma belongs to what is read, the columns of W: these are the rows": w * gamma[:, None],
        "the weight stays (out, in): this one is transposed": (w * gamma).T,
        "the weight is as before: gamma moves into it": w,
        "multiply by gamma: from now on the layer reads rows without it": w / gamma,
    }


def _wrong_biases(w: Tensor, b: Tensor, gamma: Tensor, beta: Tensor) -> dict[str, Tensor]:
    return {
        "beta passes the old W, without gamma": b + w * gamma @ beta,
        "the old bias is lost": w @ beta,
        "the old bias is lost, and beta passes the old W, without gamma": w * gamma @ beta,
        "the bias moves, too: beta passes W": b,
        "beta passes W before it is added: it has one number for each input": b + beta,
        "W is (out, in): W beta, not beta W": b + beta @ w,
        "beta was added before, so W beta is added": b - w @ beta,
    }


def _unlike(found: Tensor, mistakes: Mapping[str, Tensor]) -> None:
    for message, wrong in mistakes.items():
        assert not torch.allclose(found, wrong), message


def _names() -> list[str]:
    with torch.device("meta"):  # names without memory
        return [name for name, _ in GPT2Model(GPT2Config()).named_parameters()]


def finds_the_groups(attempt: Callable) -> None:
    """Exercise 8.2: ``attempt(name)`` → "LayerNorm", "positions" or "frozen", for each parameter of GPT-2."""
    found = {name: attempt(name) for name in _names()}
    odd = next((g for g in found.values() if g not in KNOWN), None)
    assert odd is None, f"{odd!r} is no group: use one of {', '.join(KNOWN)}"
    hints = {
        "wpe.weight": ("positions", "the position embeddings are trained"),
        "wte.weight": ("frozen", "words are not used: pixels come in"),
        "ln_f.weight": ("LayerNorm", "the final one is a LayerNorm, too"),
        "h.0.ln_1.bias": ("LayerNorm", "beta is called bias, and is trained"),
        "h.0.attn.c_attn.bias": ("frozen", "other biases stay frozen"),
    }
    for name, (group, hint) in hints.items():
        assert found[name] == group, f"{name}: not {found[name]!r}; {hint}"
    many = [name for name, group in found.items() if group == "positions"]
    assert many == ["wpe.weight"], f"only wpe holds positions, {next(n for n in many if n != 'wpe.weight')} does not"
    count = list(found.values()).count("LayerNorm")
    assert count == 50, f"25 LayerNorms, each gamma and beta: 50, not {count}"
    wrong = next((n for n, group in found.items() if (group == "LayerNorm") != ("ln_" in n)), None)
    assert wrong is None, f"{wrong}: not {found[wrong]!r}; LayerNorms are ln_1, ln_2 and ln_f"


VALIDATION = {"a": (0.88, 0.86, 0.70), "b": (0.90, 0.60, 0.72), "c": (0.72, 0.88, 0.71)}  # seeds 0, 1, 2
TEST = {"a": (0.81, 0.79, 0.68), "b": (0.92, 0.82, 0.81), "c": (0.66, 0.69, 0.63)}


def _runs(rates: Mapping[str, float]) -> pd.DataFrame:
    rows = [
        {"rate": rate, "seed": seed, "validation": VALIDATION[kind][seed], "test": TEST[kind][seed]}
        for kind, rate in rates.items()
        for seed in range(3)
    ]
    return pd.DataFrame(rows).sample(frac=1, random_state=0).reset_index(drop=True)


def is_fair(attempt: Callable) -> None:
    """Exercise 8.3: ``attempt(runs)`` → test accuracy at the rate that is best on the validation set, mean of seeds."""
    for rates in (
        {"a": 1e-4, "b": 1e-3, "c": 1e-2},
        {"c": 1e-4, "a": 1e-3, "b": 1e-2},
        {"b": 1e-4, "c": 1e-3, "a": 1e-2},
    ):
        table = _runs(rates)
        found = float(attempt(table.copy()))
        mistakes = {
            "that is the rate: report its test accuracy": rates["a"],
            f"rate {rates['b']}: chosen by the test set, or by the one best run": 0.85,
            f"rate {rates['c']}: chosen by a single seed": 0.66,
            "that is the best single run: average over seeds": 0.92,
            "that is the best seed of the right rate: average over seeds": 0.81,
            "each seed got a rate of its own: choose one rate for all": (0.92 + 0.69 + 0.81) / 3,
            "the validation accuracy chose, so it flatters: report the test accuracy": 2.44 / 3,
            "that is the mean of all rates": table["test"].mean(),
        }
        for message, wrong in mistakes.items():
            assert abs(found - wrong) > 1e-6, message
        assert abs(found - 0.76) < 1e-6, f"rate {rates['a']}: 0.760, not {found:.3f}"
