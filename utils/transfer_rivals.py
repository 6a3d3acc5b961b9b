"""What a frozen body is compared with beyond other bodies: no body at all, and only some of its LayerNorms trained."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from utils.training import fit
from utils.transfer import BATCH, EVERY, WARMUP, Transferred, accuracy, loss
from utils.transfer_tasks import Task

LAST, OTHERS = "last LayerNorm alone", "all but the last LayerNorm"
NORMS = (LAST, OTHERS)


class Pixels(nn.Module):
    """One linear layer on all numbers of an example: (examples, tokens, width) → logits (examples, outputs, classes).

    It starts as the heads of ``Transferred`` do: normal weights of standard deviation 0.02, biases 0.
    """

    def __init__(self, task: Task, seed: int = 0) -> None:
        super().__init__()
        self.classes = task.classes
        self.output = nn.Linear(task.inputs[0].numel(), task.targets.shape[1] * task.classes)
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            self.output.weight.copy_(torch.randn(self.output.weight.shape, generator=generator) * 0.02)
            self.output.bias.zero_()

    def forward(self, inputs: Tensor, **_: Tensor) -> Tensor:
        return self.output(inputs.flatten(1)).reshape(len(inputs), -1, self.classes)


def stepped(task: Task, *, learning_rate: float, steps: int = 100, seed: int = 0) -> dict[str, float]:
    """A linear model on the inputs with the budget of a rung: the same batches, warm-up and checks as ``adapt``.

    Returns the best accuracy on the validation set and the accuracy of the same weights on the test set.
    """
    inputs, targets = task.part("train")
    model, scores = Pixels(task, seed), []

    def draw(generator: torch.Generator) -> dict[str, Tensor]:
        rows = torch.randint(len(inputs), (BATCH,), generator=generator)
        return {"inputs": inputs[rows], "targets": targets[rows]}

    def error(candidate: nn.Module) -> float:
        scores.append(accuracy(candidate, *task.part("validation")))
        return 1 - scores[-1]

    options = {"steps": steps, "learning_rate": learning_rate, "warmup": WARMUP, "seed": seed, "every": EVERY}
    fit(model, draw, loss, evaluate=error, clip=None, **options)
    return {"validation": max(scores), "test": accuracy(model, *task.part("test"))}


def keep_norms(net: Transferred, which: str) -> None:
    """Of the group "layernorm" keep only the last LayerNorm, or all but the last; γ and β of the rest become constants.

    which: ``LAST`` or ``OTHERS``. ``net`` computes what it did. Raises ValueError for another word.
    """
    if which not in NORMS:
        raise ValueError(f"which must be {LAST!r} or {OTHERS!r}, got {which!r}")
    norms = [module for module in net.modules() if isinstance(module, nn.LayerNorm)]
    for norm in norms[:-1] if which == LAST else norms[-1:]:
        for name in ("weight", "bias"):
            value = getattr(norm, name).detach()
            delattr(norm, name)
            norm.register_buffer(name, value)
