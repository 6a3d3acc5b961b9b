"""What a pass through MiniLM costs when heads are removed, when they are only masked, and what operations predict.

python -m tools.sweeps.pruning_latency   about 2 minutes of one core; writes data/sweeps/pruning_latency.json

All variants take turns, so that a slow moment of the machine meets all of them. A row holds medians over the rounds.
Time is that of the processor, on one thread: the clock on the wall also measures who else uses the machine.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from statistics import median, quantiles

import torch
from torch import nn
from tqdm import tqdm

from tools.sweeps.record import made, write
from utils.heads import Head, gated, heads_of
from utils.models import MINILM_SHA256, load
from utils.pruned_retrieval import SHARES
from utils.pruning import prune, random_order

NAME = "pruning_latency"
SHAPES = ((1, 64), (16, 64))  # texts, tokens of each
ROUNDS, WARM, SEEDS = 11, 1, 2
MASKED = (0.5, 1.0)  # shares of heads that are masked, too


def variants(model: nn.Module) -> Iterator[tuple[dict, nn.Module, dict[Head, float]]]:
    """(what a row says, model, its gates): heads removed in two random orders, masked in the first one."""
    total = len(heads_of(model))
    for seed in range(SEEDS):
        order = random_order(model, seed)
        for share in SHARES:
            gone = order[: round(share * total)]
            yield {"how": "removed", "seed": seed, "kept": total - len(gone)}, prune(model, gone).eval(), {}
    order = random_order(model, 0)
    for share in MASKED:
        gone = order[: round(share * total)]
        yield {"how": "masked", "seed": 0, "kept": total - len(gone)}, model, dict.fromkeys(gone, 0.0)


@contextmanager
def _alone(model: nn.Module, gates: dict[Head, float]) -> Iterator[None]:
    with torch.inference_mode(), gated(model, gates) if gates else nullcontext():
        yield


def times(model: nn.Module, gates: dict[Head, float], batch: dict, repeats: int) -> tuple[float, float]:
    """Milliseconds of a pass, the mean of some: of the processor, and on the wall."""
    with _alone(model, gates):
        model(**batch)
        processor, wall = time.process_time(), time.perf_counter()
        for _ in range(repeats):
            model(**batch)
        parts = time.process_time() - processor, time.perf_counter() - wall
    return tuple(1000 * part / repeats for part in parts)


def batch_of(texts: int, tokens: int) -> dict[str, torch.Tensor]:
    """Token numbers without padding."""
    ids = torch.randint(1000, 20000, (texts, tokens), generator=torch.Generator().manual_seed(0))
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def summary(found: list[tuple[float, float]]) -> dict[str, float]:
    processor, wall = ([each[i] for each in found] for i in (0, 1))
    low, _, high = quantiles(processor, n=4)
    return {
        "ms": round(median(processor), 3),
        "low": round(low, 3),
        "high": round(high, 3),
        "wall_ms": round(median(wall), 3),
    }


def main() -> None:
    torch.set_num_threads(1)
    model, _ = load("minilm")
    chosen, rows = list(variants(model)), []
    began = os.getloadavg()[0]
    for texts, tokens in SHAPES:
        batch, repeats = batch_of(texts, tokens), max(1, 256 // (texts * tokens))
        found = [[] for _ in chosen]
        for turn in tqdm(range(WARM + ROUNDS), desc=f"{texts} x {tokens}"):
            for (_, changed, gates), into in zip(chosen, found, strict=True):
                took = times(changed, gates, batch, repeats)
                into += [took] * (turn >= WARM)
        rows += [
            row | {"texts": texts, "tokens": tokens} | summary(each)
            for (row, _, _), each in zip(chosen, found, strict=True)
        ]
        facts = {"rounds": ROUNDS, "clock": "processor time, one thread", "load": [began, os.getloadavg()[0]]}
        write(NAME, {"made": made(NAME, model=MINILM_SHA256, **facts), "rows": rows})


if __name__ == "__main__":
    main()
