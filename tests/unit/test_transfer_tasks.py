"""Data sets without language: what is in them, that their parts do not overlap, and what a linear model gets."""

from __future__ import annotations

import pytest
import torch
from sklearn.datasets import load_digits

from utils import transfer_tasks as tasks


@pytest.mark.parametrize("name", tasks.TASKS)
def test_train_validation_and_test_are_all_examples_and_share_none(name):
    task = tasks.TASKS[name]()
    parts = torch.cat([task.train, task.validation, task.test])
    assert sorted(parts.tolist()) == list(range(len(task.inputs)))


def test_patches_are_the_four_quarters_of_each_image():
    task = tasks.digits()
    images = torch.tensor(load_digits().images, dtype=torch.float32)
    known = images[task.train]
    images = (images - known.mean()) / known.std()
    quarters = [images[:, :4, :4], images[:, :4, 4:], images[:, 4:, :4], images[:, 4:, 4:]]
    for token, quarter in enumerate(quarters):
        assert torch.allclose(task.inputs[:, token], quarter.flatten(1), atol=1e-5)


def test_xor_is_that_of_python():
    task = tasks.bit_xor(4)
    assert len(task.inputs) == 256 and len({tuple(row) for row in task.inputs.flatten(1).tolist()}) == 256
    for row, answer in zip(task.inputs[:40, :, 0].tolist(), task.targets[:40].tolist(), strict=True):
        assert answer == [int(a > 0) ^ int(b > 0) for a, b in zip(row[:4], row[4:], strict=True)]


def test_memory_asks_for_hidden_bits_of_a_string_that_was_shown():
    task = tasks.bit_memory(strings=3, length=20, examples=50)
    strings, asked = task.inputs[:, :3], task.inputs[:, 3]
    hidden = asked == 0
    assert torch.equal(hidden, task.targets != tasks.IGNORED) and 0.4 < hidden.float().mean() < 0.6
    whole = torch.where(hidden, 2.0 * task.targets - 1, asked)
    assert (strings == whole[:, None]).all(-1).any(-1).all()


def test_a_linear_model_reads_digits_and_not_xor():
    assert tasks.linear_baseline(tasks.digits()) > 0.95
    assert tasks.linear_baseline(tasks.bit_xor()) < 0.6
    assert 0.65 < tasks.linear_baseline(tasks.bit_memory(strings=3, length=8, examples=2000)) < 0.8


def test_fewer_examples_are_the_first_ones_and_leave_the_test_set_alone():
    task = tasks.digits()
    few = task.first(50)
    assert torch.equal(few.train, task.train[:50]) and torch.equal(few.test, task.test)
    assert task.chance == 0.1 and tasks.digits(read=0).read == 0


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: tasks.digits(read=2), "read must be 1"),
        (lambda: tasks.digits().first(0), "from 1 to 1000"),
        (lambda: tasks.digits().part("all"), "'train', 'validation' or 'test'"),
        (lambda: tasks.bit_xor(9), "from 1 to 8"),
        (lambda: tasks.bit_memory(strings=0), "strings must be a whole number from 1"),
    ],
)
def test_what_does_not_fit_is_named(call, words):
    with pytest.raises(ValueError, match=words):
        call()
