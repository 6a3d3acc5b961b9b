"""Rivals of a frozen body: a linear model with the same budget, and some LayerNorms held."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from utils import transfer, transfer_rivals
from utils.transfer_tasks import bit_xor, digits, linear_baseline


def test_a_stepped_linear_model_learns_digits_and_stays_below_the_solved_one():
    task = digits()
    found = transfer_rivals.stepped(task, learning_rate=1e-2)
    assert 0.88 < found["test"] < linear_baseline(task) and found["validation"] > 0.88
    assert transfer_rivals.stepped(task, learning_rate=1e-2, steps=5)["test"] < found["test"] - 0.2


def test_its_logits_are_linear_in_all_numbers_of_an_example():
    task = bit_xor(3)
    model = transfer_rivals.Pixels(task, seed=1)
    a, b = task.inputs[:4], task.inputs[4:8]
    assert model(a).shape == (4, 3, 2)
    assert torch.allclose(model(a) + model(b), model(a + b), atol=1e-6)  # biases start at 0


@pytest.mark.parametrize(("which", "numbers"), [("last LayerNorm alone", 768), ("all but the last LayerNorm", 9216)])
def test_held_norms_compute_the_same_and_are_not_trained(which, numbers):
    task = digits().first(40)
    net = transfer.Transferred(transfer.body("pretrained"), task)
    with torch.no_grad():
        before = net(task.inputs[:5])
        transfer_rivals.keep_norms(net, which)
        assert torch.equal(net(task.inputs[:5]), before)
    norms = [module for module in net.modules() if isinstance(module, nn.LayerNorm)]
    old = [norm.weight.detach().clone() for norm in norms]
    assert transfer.adapt(net, task, ["layernorm"], learning_rate=1e-2, steps=2)["trained"] == numbers
    moved = [not torch.equal(norm.weight, was) for norm, was in zip(norms, old, strict=True)]
    last = net.body.encoder.layer[-1].output.LayerNorm
    assert norms[-1] is last
    assert moved == [which.startswith("all")] * 12 + [which.startswith("last")]


def test_another_word_is_refused():
    net = transfer.Transferred(transfer.body("random small"), digits())
    with pytest.raises(ValueError, match="which must be 'last LayerNorm alone'"):
        transfer_rivals.keep_norms(net, "first")
