"""A sweep whose runs are rows of one table: goes on where a run stopped, and chooses rates with the first seed."""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable, Iterable, Iterator

import torch

from tools.sweeps.record import earlier, made, write
from utils.models import MINILM_SHA256

Row = dict[str, object]
KEY = ("task", "body", "rung", "learning_rate", "seed", "examples", "input_scale", "read", "steps")
COLUMNS = (*KEY, "trained", "validation", "test", "curve", "diverged", "seconds")


def with_rates(plans: Iterable[tuple[Row, tuple[float, ...]]], seeds: int, rows: list[Row]) -> Iterator[Row]:
    """Settings with their rates: all with seed 0; the others only at the rate with the best validation accuracy there.

    plans: (setting, its rates). rows: what has been run, grows while this is read.
    """
    plans = list(plans)
    for setting, rates in plans:
        yield from (setting | {"seed": 0, "learning_rate": rate} for rate in rates)
    for seed, (setting, _) in itertools.product(range(1, seeds), plans):
        first = [row for row in rows if row["seed"] == 0 and all(row[name] == setting[name] for name in setting)]
        best = max(first, key=lambda row: (row["validation"], -row["learning_rate"]))
        yield setting | {"seed": seed, "learning_rate": best["learning_rate"]}


def sweep(name: str, settings: Callable[[int, list[Row]], Iterator[Row]], run: Callable[[Row], Row], **facts) -> None:
    """Run what is not there yet, and write data/sweeps/<name>.json after each run.

    settings: (seeds, rows so far) → settings, each with all of ``KEY``. run: setting → the other columns.
    """
    parser = argparse.ArgumentParser(prog=f"python -m tools.sweeps.{name}")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=1e9, help="start no run after so many")
    options = parser.parse_args()
    torch.set_num_threads(1)
    before = earlier(name, MINILM_SHA256) or {"rows": [], "columns": COLUMNS}
    rows = [dict(zip(before["columns"], row, strict=True)) for row in before["rows"]]
    began = time.monotonic()
    for setting in settings(options.seeds, rows):
        known = {tuple(row[key] for key in KEY) for row in rows}
        if tuple(setting[key] for key in KEY) in known or time.monotonic() - began > 60 * options.minutes:
            continue
        rows.append(_rounded(setting | run(setting)))
        print({key: rows[-1][key] for key in (*KEY[:6], "validation", "test", "seconds")}, flush=True)
        content = made(name, model=MINILM_SHA256, **facts)
        content["processor_seconds"] = round(sum(row["seconds"] for row in rows))
        write(name, {"made": content, "columns": COLUMNS, "rows": [[row[key] for key in COLUMNS] for row in rows]})


def _rounded(row: Row) -> Row:
    def short(value: object) -> object:
        if isinstance(value, list):
            return [short(each) for each in value]
        return round(value, 4) if isinstance(value, float) else value

    seconds = round(row["seconds"], 1)
    return {name: row[name] if name in KEY else short(row[name]) for name in COLUMNS} | {"seconds": seconds}
