"""One small loop that trains: seeds, a progress bar that can be switched off, early stop. Used by every chapter.

A batch is a mapping of the keyword arguments of the model's forward; a loss is a function (outputs, batch) → scalar
tensor; an evaluate is a function (model) → float, smaller is better.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from tqdm import tqdm

Batch = Mapping[str, Any]


class History(NamedTuple):
    """What a training run did.

    losses: (steps,), float32, of the batches as they came; scores: (step, value) each time ``evaluate`` was asked;
    best: the step whose weights the model now has; stopped: whether patience ran out before all steps were done.
    """

    losses: Tensor
    scores: list[tuple[int, float]]
    best: int
    stopped: bool

    def final_loss(self, share: float = 0.1) -> float:
        """Mean loss over the last ``share`` of the steps: one step alone is noise."""
        return float(self.losses[-max(1, round(len(self.losses) * share)) :].mean())


def fit(
    model: nn.Module,
    batches: Callable[[torch.Generator], Batch] | Sequence[Batch],
    loss: Callable[[Any, Batch], Tensor],
    *,
    steps: int,
    learning_rate: float = 1e-3,
    weight_decay: float = 0.0,
    clip: float | None = None,
    parameters: Iterable[nn.Parameter] | None = None,
    warmup: int = 0,
    seed: int = 0,
    evaluate: Callable[[nn.Module], float] | None = None,
    every: int = 100,
    patience: int | None = None,
    label: str | None = None,
) -> History:
    """Train ``model`` in place with AdamW for at most ``steps`` steps.

    batches: a function that draws a batch with a given generator (synthetic tasks), or a list of batches, each epoch in
    another order. parameters: what is trained, by default all that require a gradient. warmup: steps over which the
    learning rate rises to its value. clip: greatest norm of the gradient.
    evaluate: asked after every ``every`` steps and at the end, in evaluation mode without gradients; the weights of the
    best answer are kept. patience: how many answers in a row may bring no improvement before the run stops.
    seed: of batches, order and dropout; the global random state is left as it was, and so is the model's mode.
    The bar (named ``label``) is off where the environment has TQDM_DISABLE=1, as for notebooks that are generated or
    tested.
    Raises ValueError for options that do not fit, FloatingPointError when the loss is no longer finite.
    """
    _check(steps, every, patience, evaluate, batches)
    trained = [p for p in (model.parameters() if parameters is None else parameters) if p.requires_grad]
    if not trained:
        raise ValueError("nothing to train: no parameter requires a gradient")
    optimiser = torch.optim.AdamW(trained, lr=learning_rate, weight_decay=weight_decay)
    rate = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: min(1.0, (step + 1) / (warmup + 1)))
    losses, scores, best, state, stopped = [], [], (math.inf, 0), None, False
    mode = model.training
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        stream = _stream(batches, seed)
        try:
            for step in tqdm(range(1, steps + 1), desc=label, leave=False):
                model.train()
                batch = next(stream)
                found = loss(model(**batch), batch)
                losses.append(float(found.detach()))
                if not math.isfinite(losses[-1]):
                    raise FloatingPointError(
                        f"the loss is {losses[-1]} at step {step}: lower the learning rate or clip the gradient"
                    )
                optimiser.zero_grad(set_to_none=True)
                found.backward()
                if clip is not None:
                    nn.utils.clip_grad_norm_(trained, clip)
                optimiser.step()
                rate.step()
                if evaluate is None or (step % every and step != steps):
                    continue
                score = _ask(evaluate, model)
                scores.append((step, score))
                if score < best[0]:
                    best, state = (score, step), copy.deepcopy(model.state_dict())
                since = sum(at > best[1] for at, _ in scores)
                if patience is not None and since >= patience:
                    stopped = step < steps
                    break
        finally:
            if state is not None:
                model.load_state_dict(state)
            model.train(mode)
    return History(torch.tensor(losses), scores, best[1] if state is not None else len(losses), stopped)


def _ask(evaluate: Callable[[nn.Module], float], model: nn.Module) -> float:
    model.eval()
    with torch.no_grad():
        return float(evaluate(model))


def _stream(batches: Callable[[torch.Generator], Batch] | Sequence[Batch], seed: int) -> Iterator[Batch]:
    """Batches without end."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        if callable(batches):
            yield batches(generator)
        else:
            yield from (batches[i] for i in torch.randperm(len(batches), generator=generator).tolist())


def _check(steps, every, patience, evaluate, batches) -> None:
    for name, value in (("steps", steps), ("every", every), ("patience", patience)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
            raise ValueError(f"{name} must be a whole number from 1, got {value!r}")
    if patience is not None and evaluate is None:
        raise ValueError("patience needs evaluate=: without it there is nothing that could stop improving")
    if not callable(batches) and (not isinstance(batches, Sequence) or not batches):
        raise ValueError("batches must be a list of batches, not empty, or a function that draws one with a generator")
