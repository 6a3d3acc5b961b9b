"""Three small data sets without language, to see what a language model brings to them. None needs a download.

Every task is a tensor of inputs (examples, tokens, width), targets, and three disjoint sets of examples.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from torch import Tensor

IGNORED = -100  # a target that counts neither in the loss nor in the accuracy
PATCH = 4  # side of a patch of an image, in pixels
SPLIT_SEED = 0
VALIDATION, TEST = 297, 500  # digits; the other 1,000 train


class Task(NamedTuple):
    """Inputs, targets and who is who.

    inputs: (examples, tokens, width), float32. targets: (examples, outputs), whole numbers from 0; ``IGNORED`` is left
    out. read: the head reads the mean of all states (0) or the states of the last ``read`` tokens. classes: of each
    output. train, validation, test: indices of examples, disjoint.
    """

    name: str
    inputs: Tensor
    targets: Tensor
    read: int
    classes: int
    train: Tensor
    validation: Tensor
    test: Tensor

    @property
    def chance(self) -> float:
        """Accuracy of guessing: one over the number of classes."""
        return 1 / self.classes

    def part(self, which: str) -> tuple[Tensor, Tensor]:
        """Inputs and targets of "train", "validation" or "test"."""
        if which not in ("train", "validation", "test"):
            raise ValueError(f"which must be 'train', 'validation' or 'test', got {which!r}")
        chosen = getattr(self, which)
        return self.inputs[chosen], self.targets[chosen]

    def first(self, n: int) -> Task:
        """The same task with the first ``n`` training examples: a larger n holds a smaller one."""
        if isinstance(n, bool) or not isinstance(n, int) or not 1 <= n <= len(self.train):
            raise ValueError(f"n must be a whole number from 1 to {len(self.train)}, got {n!r}")
        return self._replace(train=self.train[:n])


def digits(read: int = 1) -> Task:
    """Handwritten digits (scikit-learn), 8 × 8 pixels as 4 patches of 4 × 4, ten classes.

    1,000 train, 297 validate, 500 test. Pixels are standardised with the mean and spread of all training pixels.
    read: 1, the head reads the state of the last patch, as in the paper; 0, the mean of all states.
    """
    if read not in (0, 1):
        raise ValueError(f"read must be 1 (the last state) or 0 (the mean of all states), got {read!r}")
    pixels, labels = load_digits(return_X_y=True)
    images = torch.tensor(pixels, dtype=torch.float32).view(-1, 2, PATCH, 2, PATCH)
    patches = images.transpose(2, 3).reshape(len(images), 4, PATCH * PATCH)
    train, validation, test = _split(len(patches), VALIDATION, TEST)
    known = patches[train]
    inputs = (patches - known.mean()) / known.std()
    return Task("digits", inputs, torch.tensor(labels)[:, None], read, 10, train, validation, test)


def bit_xor(length: int = 5) -> Task:
    """Two strings of bits, one bit a token; at the second string the answer is the exclusive or of both, bit by bit.

    All 4 ** length pairs: a quarter tests, an eighth validates. Bits are −1 and 1.
    """
    _positive("length", length, most=8)
    pairs = 4**length
    bits = (torch.arange(pairs)[:, None] >> torch.arange(2 * length)) & 1
    answers = bits[:, :length] ^ bits[:, length:]
    splits = _split(pairs, max(1, pairs // 8), max(1, pairs // 4))
    return Task("bit xor", 2.0 * bits[..., None] - 1, answers, length, 2, *splits)


def bit_memory(strings: int = 3, length: int = 32, examples: int = 6000) -> Task:
    """Strings of random bits, one a token, then one of them again with about half of its bits hidden: name those.

    Bits are −1 and 1, hidden ones 0. Targets at bits that can be seen are ``IGNORED``.
    """
    for name, value in (("strings", strings), ("length", length), ("examples", examples)):
        _positive(name, value)
    generator = torch.Generator().manual_seed(SPLIT_SEED)
    bits = torch.randint(2, (examples, strings, length), generator=generator)
    asked = bits[torch.arange(examples), torch.randint(strings, (examples,), generator=generator)]
    hidden = torch.rand(examples, length, generator=generator) < 0.5
    shown = (2.0 * asked - 1).masked_fill(hidden, 0.0)
    inputs = torch.cat([2.0 * bits - 1, shown[:, None]], dim=1)
    splits = _split(examples, examples // 10, examples // 5)
    return Task("bit memory", inputs, asked.masked_fill(~hidden, IGNORED), 1, 2, *splits)


TASKS = {"digits": digits, "bit xor": bit_xor, "bit memory": bit_memory}


def linear_baseline(task: Task, penalty: float = 1.0) -> float:
    """Test accuracy of logistic regression on the inputs themselves, one for each output. What needs no network.

    penalty: of scikit-learn's ``C``, its inverse.
    """
    (inputs, targets), (new, answers) = task.part("train"), task.part("test")
    right, counted = 0, 0
    for output in range(targets.shape[1]):
        known, asked = targets[:, output] != IGNORED, answers[:, output] != IGNORED
        if not asked.any():
            continue
        model = LogisticRegression(C=1 / penalty, max_iter=2000)
        model.fit(inputs[known].flatten(1).numpy(), targets[known, output].numpy())
        found = torch.tensor(model.predict(new[asked].flatten(1).numpy()))
        right += int((found == answers[asked, output]).sum())
        counted += int(asked.sum())
    return right / counted


def _split(examples: int, validation: int, test: int) -> tuple[Tensor, Tensor, Tensor]:
    order = torch.randperm(examples, generator=torch.Generator().manual_seed(SPLIT_SEED))
    return order[: -validation - test], order[-validation - test : -test], order[-test:]


def _positive(name: str, value: int, most: int = 1_000_000) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise ValueError(f"{name} must be a whole number from 1 to {most:,}, got {value!r}")
