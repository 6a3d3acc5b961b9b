"""Chapters 8 and 9: what a frozen encoder learns without language. ``python -m tools.sweeps.transfer``.

Writes data/sweeps/transfer.json, a row a run: accuracy on the validation and the test set, and the curve of the former.
One thread. Goes on where an earlier run stopped: rows that are there are not made again, and the file is written after
each. All settings of one seed come before the next seed.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Iterator

import torch

from tools.sweeps.record import earlier, made, write
from utils import transfer
from utils.models import MINILM_SHA256
from utils.transfer_tasks import TASKS, Task, digits, linear_baseline

KEY = ("task", "body", "rung", "learning_rate", "seed", "examples", "input_scale", "read", "steps")
COLUMNS = (*KEY, "trained", "validation", "test", "curve", "diverged", "seconds")
RATES = (1e-4, 1e-3, 1e-2)  # the paper's rate, 1e-3, a tenth of it and ten times it
STEPS = {"digits": 100, "bit memory": 300, "bit xor": 50}
EVERY = {"digits": 25, "bit memory": 50, "bit xor": 25}
LARGE_INPUT = 0.3
SIZES = (50, 200)
EXAMPLES = 1000  # of digits


def settings(seed: int) -> Iterator[dict]:
    """All runs of one seed, the most important first."""
    trained, scaled, small = transfer.BODIES
    both, usual = (trained, scaled), RATES[1:]
    yield from _digits(seed, ("output",), transfer.BODIES, RATES)
    yield from _digits(seed, tuple(transfer.LADDER)[1:], both, usual)
    yield from _digits(seed, ("everything",), (trained, small), RATES)
    yield from _digits(seed, ("output",), both, usual, read=0)
    yield from _digits(seed, ("input and output", "LayerNorm alone"), both, usual)
    yield from _digits(seed, ("+ positions",), (small,), usual)
    for kind, rate in itertools.product(both, usual):
        yield _bits("bit xor", seed) | {"body": kind, "rung": "+ positions", "learning_rate": rate}
    yield from _digits(seed, ("+ positions",), both, usual, input_scale=LARGE_INPUT)


def later(seed: int) -> Iterator[dict]:
    """What comes after all seeds: the smallest rate, the memory task, and fewer examples (chapter 9)."""
    trained, scaled, small = transfer.BODIES
    yield from _digits(seed, ("+ positions",), (trained, scaled), RATES[:1])
    for kind in (trained, scaled):
        yield _bits("bit memory", seed) | {"body": kind, "rung": "+ positions", "learning_rate": 3e-3}
    for examples in SIZES:
        yield from _digits(seed, ("+ positions",), (trained, scaled), (1e-3,), examples=examples)
        yield from _digits(seed, ("everything",), (trained, small), (1e-4,), examples=examples)


def _digits(seed: int, rungs: tuple, bodies: tuple, rates: tuple, **changed: object) -> Iterator[dict]:
    fixed = {"task": "digits", "examples": EXAMPLES, "input_scale": transfer.INPUT_SCALE, "read": 1}
    for rung, kind, rate in itertools.product(rungs, bodies, rates):
        own = {"seed": seed, "steps": STEPS["digits"], "body": kind, "rung": rung, "learning_rate": rate}
        yield fixed | own | changed


def _bits(name: str, seed: int) -> dict:
    task = TASKS[name]()
    fixed = {"task": name, "examples": len(task.train), "read": task.read, "steps": STEPS[name]}
    return fixed | {"input_scale": transfer.INPUT_SCALE, "seed": seed}


def run(setting: dict) -> dict:
    """One row: a fresh body, new layers, training; deterministic for one machine and version of torch."""
    task = the_task(setting)
    net = transfer.Transferred(
        transfer.body(setting["body"], setting["seed"]), task, setting["seed"], setting["input_scale"]
    )
    found = transfer.adapt(
        net,
        task,
        transfer.RUNGS[setting["rung"]],
        learning_rate=setting["learning_rate"],
        steps=setting["steps"],
        every=EVERY[setting["task"]],
        seed=setting["seed"],
    )
    return setting | found


def the_task(setting: dict) -> Task:
    """The data of a row."""
    task = digits(setting["read"]) if setting["task"] == "digits" else TASKS[setting["task"]]()
    return task.first(setting["examples"])


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.sweeps.transfer", description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=1e9, help="start no run after so many")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    before = earlier("transfer", MINILM_SHA256) or {"rows": [], "columns": COLUMNS}
    rows = [dict(zip(before["columns"], row, strict=True)) for row in before["rows"]]
    known = {tuple(row[name] for name in KEY) for row in rows}
    linear = {name: round(linear_baseline(task()), 4) for name, task in TASKS.items()}
    began = time.monotonic()
    seeds = range(options.seeds)
    queue = [s for seed in seeds for s in settings(seed)] + [s for seed in seeds for s in later(seed)]
    for setting in queue:
        if tuple(setting[name] for name in KEY) in known or time.monotonic() - began > 60 * options.minutes:
            continue
        rows.append(_rounded(run(setting)))
        print({name: rows[-1][name] for name in (*KEY[:5], "test", "curve", "seconds")}, flush=True)
        _store(rows, linear)


def _store(rows: list[dict], linear: dict[str, float]) -> None:
    content = made("transfer", model=MINILM_SHA256, linear=linear, batch=transfer.BATCH, warmup=transfer.WARMUP)
    content["processor_seconds"] = round(sum(row["seconds"] for row in rows))
    table = [[row[name] for name in COLUMNS] for row in rows]
    write("transfer", {"made": content, "columns": COLUMNS, "rows": table})


def _rounded(row: dict) -> dict:
    def short(value: object) -> object:
        if isinstance(value, list):
            return [short(each) for each in value]
        return round(value, 4) if isinstance(value, float) else value

    return {name: row[name] if name in KEY else short(row[name]) for name in COLUMNS} | {
        "seconds": round(row["seconds"], 1)
    }


if __name__ == "__main__":
    main()
