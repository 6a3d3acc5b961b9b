"""The loop that trains: it learns, repeats, stops early, and leaves everything else as it was."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from utils.training import fit

TRUE = torch.tensor([[1.0, -2.0, 0.5]])


class Line(nn.Module):
    def __init__(self, dropout: float = 0.0):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1, 3))
        self.other = nn.Parameter(torch.ones(1))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, labels=None):
        return self.dropout(x) @ self.weight.T + 0 * self.other


def draw(generator):
    x = torch.randn(32, 3, generator=generator)
    return {"x": x, "labels": x @ TRUE.T}


def squared(outputs, batch):
    return (outputs - batch["labels"]).square().mean()


def distance(model):
    return float((model.weight.detach() - TRUE).norm())


def test_it_finds_the_line():
    model = Line()
    history = fit(model, draw, squared, steps=400, learning_rate=0.05)
    assert distance(model) < 1e-2 and len(history.losses) == 400
    assert history.final_loss() < 1e-3 < history.losses[0] and history.best == 400 and not history.stopped


def test_one_step_is_a_step_of_adamw():
    model, reference = Line(), Line()
    batch = draw(torch.Generator().manual_seed(7))
    fit(model, [batch], squared, steps=1, learning_rate=0.1, weight_decay=0.1)
    optimiser = torch.optim.AdamW(reference.parameters(), lr=0.1, weight_decay=0.1)
    squared(reference(**batch), batch).backward()
    optimiser.step()
    assert torch.equal(model.weight, reference.weight)


def test_a_seed_decides_everything_and_the_global_state_stays():
    runs = []
    for seed in (0, 0, 1):
        torch.manual_seed(99)
        model = Line(dropout=0.5)
        history = fit(model, draw, squared, steps=5, seed=seed)
        runs.append((history.losses, torch.rand(1)))
    assert torch.equal(runs[0][0], runs[1][0]) and not torch.equal(runs[0][0], runs[2][0])
    torch.manual_seed(99)
    assert {float(after) for _, after in runs} == {float(torch.rand(1))}


def test_a_list_is_gone_through_in_every_epoch():
    seen = []
    batches = [{"x": torch.full((1, 3), float(i)), "labels": torch.zeros(1, 1)} for i in range(5)]

    def loss(outputs, batch):
        seen.append(int(batch["x"][0, 0]))
        return squared(outputs, batch)

    fit(Line(), batches, loss, steps=10)
    assert sorted(seen[:5]) == sorted(seen[5:]) == list(range(5)) and seen[:5] != seen[5:]


def test_it_stops_when_nothing_improves_and_keeps_the_best_weights():
    answers, weights = iter([3.0, 1.0, 2.0, 2.0, 0.5]), []

    def evaluate(model):
        assert not model.training and not torch.is_grad_enabled()
        weights.append(model.weight.clone())
        return next(answers)

    model = Line()
    history = fit(model, draw, squared, steps=100, every=10, evaluate=evaluate, patience=2)
    assert history.stopped and history.best == 20 and len(history.losses) == 40
    assert history.scores == [(10, 3.0), (20, 1.0), (30, 2.0), (40, 2.0)]
    assert torch.equal(model.weight, weights[1]) and model.training


def test_it_is_asked_at_the_end_too():
    history = fit(Line().eval(), draw, squared, steps=7, every=5, evaluate=distance)
    assert [step for step, _ in history.scores] == [5, 7]


def test_the_mode_is_given_back():
    model = Line().eval()
    fit(model, draw, squared, steps=1)
    assert not model.training


def test_only_the_named_parameters_are_trained():
    model = Line()
    fit(model, draw, lambda o, b: squared(o, b) + model.other.square().sum(), steps=3, parameters=[model.other])
    assert torch.equal(model.weight, torch.zeros(1, 3)) and model.other != 1


def test_the_rate_rises_during_warmup():
    def first_move(warmup):
        model = Line()
        fit(model, draw, squared, steps=1, learning_rate=0.1, warmup=warmup)
        return float(model.weight.detach().abs().max())

    assert first_move(9) == pytest.approx(first_move(0) / 10, rel=1e-3)


def test_the_gradient_is_clipped():
    model = Line()
    norms = []

    def loss(outputs, batch):
        if model.weight.grad is not None:
            norms.append(float(model.weight.grad.norm()))
        return 1e6 * squared(outputs, batch)

    fit(model, draw, loss, steps=3, clip=0.5)
    assert norms and max(norms) <= 0.5001


def test_a_loss_that_is_not_finite_stops_with_the_way_out():
    model = Line().eval()
    with pytest.raises(FloatingPointError, match="step 1: lower the learning rate"):
        fit(model, draw, lambda outputs, batch: outputs.sum() * torch.nan, steps=5)
    assert not model.training


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps": 0}, "steps must be"),
        ({"steps": 5, "every": 1.5}, "every must be"),
        ({"steps": 5, "patience": 2}, "needs evaluate="),
        ({"steps": 5, "parameters": []}, "nothing to train"),
    ],
)
def test_options_that_do_not_fit_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        fit(Line(), draw, squared, **options)


def test_no_batches_are_refused():
    with pytest.raises(ValueError, match="list of batches"):
        fit(Line(), [], squared, steps=1)


def test_the_bar_carries_its_name(monkeypatch):
    seen = []
    monkeypatch.setattr("utils.training.tqdm", lambda steps, **options: (seen.append(options), steps)[1])
    fit(Line(), draw, squared, steps=2, label="a line")
    assert seen == [{"desc": "a line", "leave": False}]


def test_the_bar_is_off_where_the_environment_says_so():
    code = (
        "import torch; from utils.training import fit; m = torch.nn.Linear(1, 1); x = {'input': torch.ones(2, 1)}; "
        "fit(m, [x], lambda o, b: o.square().mean(), steps=3)"
    )
    options = {"env": os.environ | {"TQDM_DISABLE": "1"}, "cwd": Path(__file__).parents[2]}
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, **options)
    assert run.stdout == run.stderr == ""
