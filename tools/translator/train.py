"""Train a translator: deterministic, resumable after a kill at any moment, with a curve.

Everything that decides the next step (weights, average, optimiser, random state, place in the data) is in one
checkpoint file that is replaced atomically, so a killed run continues exactly where its last checkpoint stood.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from utils.translator import Translator, TranslatorConfig

Ids = list[list[int]]
MEASURED = 40  # steps after which a time limit becomes a number of steps


@dataclass(frozen=True)
class Recipe:
    """How to train. The rate rises for ``warmup`` steps, stays until ``flat`` of all steps, then falls linearly."""

    steps: int = 17_000
    batch_tokens: int = 1000
    rate: float = 1.5e-3
    warmup: int = 300
    flat: float = 0.3
    last_rate: float = 0.02  # share of ``rate`` at the end
    weight_decay: float = 0.01
    clip: float = 1.0
    average: float = 0.998  # decay of the running average of the weights: the average is what is evaluated and kept
    seed: int = 1
    checkpoint_every: int = 100
    evaluate_every: int = 1000

    def rate_at(self, step: int) -> float:
        part = step / self.steps
        fall = 1.0 if part < self.flat else max(self.last_rate, (1 - part) / (1 - self.flat))
        return self.rate * min(1.0, (step + 1) / self.warmup) * fall


def batches(sources: Ids, targets: Ids, tokens: int, seed: int) -> list[list[int]]:
    """One epoch of batches of similar length, ``tokens`` per side at most, in an order that ``seed`` fixes."""
    rng = random.Random(seed)
    length = [max(len(a), len(b)) for a, b in zip(sources, targets, strict=True)]
    order = sorted(range(len(length)), key=lambda i: length[i] + 2 * rng.random())
    done: list[list[int]] = [[]]
    longest = 0
    for i in order:
        longest = max(longest, length[i])
        if done[-1] and (len(done[-1]) + 1) * longest > tokens:
            done.append([])
            longest = length[i]
        done[-1].append(i)
    rng.shuffle(done)
    return done


def padded(rows: Ids, value: int) -> Tensor:
    longest = max(map(len, rows))
    return torch.tensor([row + [value] * (longest - len(row)) for row in rows])


def tensors(sources: Ids, targets: Ids, chosen: list[int]) -> dict[str, Tensor]:
    """Input of the model for the ``chosen`` pairs, padded."""
    ids = padded([sources[i] for i in chosen], 0)
    return {
        "input_ids": ids,
        "attention_mask": (ids != 0).long(),
        "labels": padded([targets[i] for i in chosen], -100),
    }


class Run:
    """A training run and its checkpoint file ``folder/checkpoint.pt``."""

    def __init__(
        self,
        config: TranslatorConfig,
        recipe: Recipe,
        folder: Path,
        steps: int | None = None,
        minutes: float | None = None,
    ):
        """steps overrides the recipe, also in the middle of a run; minutes sets the steps from the measured speed."""
        self.config, self.recipe, self.file = config, recipe, folder / "checkpoint.pt"
        self.minutes = minutes
        torch.manual_seed(recipe.seed)
        self.model = Translator(config).train()
        self.average = Translator(config).eval()
        self.average.load_state_dict(self.model.state_dict())
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), recipe.rate, (0.9, 0.98), 1e-9, recipe.weight_decay, fused=True
        )
        torch.manual_seed(recipe.seed)
        self.step = self.epoch = self.place = 0  # place: batches of this epoch that are done
        self.losses: list[float] = []
        self.curve: list[dict[str, float]] = []
        self.seconds = 0.0
        if self.file.exists():
            self.restore()
        if steps:
            self.recipe, self.minutes = replace(self.recipe, steps=steps), None

    def save(self) -> None:
        state = {
            "model": self.model.state_dict(),
            "average": self.average.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "random": torch.get_rng_state(),
            "recipe": asdict(self.recipe),
            "config": self.config.to_dict(),
            **{name: getattr(self, name) for name in ("step", "epoch", "place", "losses", "curve", "seconds")},
        }
        self.file.parent.mkdir(parents=True, exist_ok=True)
        new = self.file.with_suffix(".new")
        with new.open("wb") as stream:
            torch.save(state, stream)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(new, self.file)

    def restore(self) -> None:
        state = torch.load(self.file, weights_only=True)
        shapes = [(name, weight.shape) for name, weight in state["model"].items()]
        if shapes != [(name, weight.shape) for name, weight in self.model.state_dict().items()]:
            raise ValueError(f"{self.file} holds another model: name another run (--name), or delete the file")
        self.model.load_state_dict(state["model"])
        self.average.load_state_dict(state["average"])
        self.optimizer.load_state_dict(state["optimizer"])
        torch.set_rng_state(state["random"])
        self.recipe, self.minutes = replace(self.recipe, steps=state["recipe"]["steps"]), None
        for name in ("step", "epoch", "place", "losses", "curve", "seconds"):
            setattr(self, name, state[name])

    def description(self) -> dict[str, object]:
        """Recipe, place and cost of the run, for its curve file."""
        return {
            **asdict(self.recipe),
            "done": self.step,
            "epochs": self.epoch,
            "minutes": round(self.seconds / 60, 1),
            "torch": torch.__version__,
            "threads": torch.get_num_threads(),
        }

    def learn(self, batch: dict[str, Tensor]) -> float:
        """One step of AdamW on ``batch``; returns the loss in nats per token."""
        for group in self.optimizer.param_groups:
            group["lr"] = self.recipe.rate_at(self.step)
        loss = self.model(**batch).loss
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.recipe.clip)
        self.optimizer.step()
        self.step += 1
        decay = min(self.recipe.average, self.step / (self.step + 10))
        with torch.no_grad():
            torch._foreach_lerp_(list(self.average.parameters()), list(self.model.parameters()), 1 - decay)
        return loss.item()

    def train(
        self, sources: Ids, targets: Ids, evaluate: Callable[[Translator], dict[str, float]] | None = None
    ) -> Iterator[float]:
        """Yield the loss of every step until the recipe ends; ``evaluate(average)`` adds points to the curve."""
        while self.step < self.recipe.steps:
            order = batches(sources, targets, self.recipe.batch_tokens, self.recipe.seed * 100_003 + self.epoch)
            for chosen in order[self.place :]:
                began = time.perf_counter()
                loss = self.learn(tensors(sources, targets, chosen))
                self.losses.append(round(loss, 6))
                self.place += 1
                self.seconds += time.perf_counter() - began
                if self.minutes and self.step == MEASURED:
                    self.recipe = replace(
                        self.recipe, steps=max(MEASURED, int(self.minutes * 60 / self.seconds * MEASURED))
                    )
                recipe, last = self.recipe, self.step >= self.recipe.steps
                if evaluate and (self.step % recipe.evaluate_every == 0 or last):
                    recent = self.losses[-recipe.evaluate_every :]
                    point = {"step": self.step, "epoch": self.epoch, "minutes": round(self.seconds / 60, 2)}
                    point["train_loss"] = round(sum(recent) / len(recent), 4)
                    self.curve.append(point | evaluate(self.average))
                if self.step % recipe.checkpoint_every == 0 or last:
                    self.save()
                yield loss
                if last:
                    return
            self.epoch, self.place = self.epoch + 1, 0
