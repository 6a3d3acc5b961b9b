"""Measure what takes long: ``python -m tools.benchmarks [NAME ...]`` prints a table for each; --out keeps them as JSON.

Times are processor times of one thread, medians over repetitions in which all variants take turns, after one warm-up
round each: other work on the machine then disturbs all of them alike. The exit code is 1 if a bar is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Callable
from pathlib import Path

import torch

from tools.benchmarks.importance import importance_cost, importance_ranks
from tools.benchmarks.measure import Report
from tools.benchmarks.pruning import pruning_speed

BENCHMARKS: dict[str, Callable[[int], Report]] = {
    "pruning": pruning_speed,
    "importance": importance_cost,
    "ranks": importance_ranks,
}


def machine() -> str:
    """What the times were taken on."""
    name = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        name = next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    load_ = f", load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    return f"{name}, {os.cpu_count()} cores, torch {torch.__version__}, {torch.get_num_threads()} thread{load_}"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(BENCHMARKS)}; all by default")
    parser.add_argument("--repeats", type=int, default=5, help="repetitions of each run (5)")
    parser.add_argument("--out", type=Path, help="also write the tables into this JSON file")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"there is no benchmark {unknown[0]!r}: there are {', '.join(BENCHMARKS)}")
    if options.repeats < 1:
        parser.error("--repeats must be at least 1")
    torch.set_num_threads(1)
    print(f"processor time of one thread, medians, one warm-up round. {machine()}")
    reports = {}
    for name in options.names or BENCHMARKS:
        reports[name] = report = BENCHMARKS[name](options.repeats)
        print(f"\n{name}: {report.notes}\n{report.table.to_string(index=False, float_format='{:.3g}'.format)}")
        for bar, kept in report.bars.items():
            print(f"{'kept' if kept else 'MISSED'}: {bar}")
    if options.out:
        tables = {name: report.table.to_dict("records") for name, report in reports.items()}
        bars = {name: report.bars for name, report in reports.items()}
        text = json.dumps({"machine": machine(), "tables": tables, "bars": bars}, indent=1, default=str)
        options.out.write_text(text + "\n", encoding="utf-8")
    return 0 if all(kept for report in reports.values() for kept in report.bars.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
