"""Chapter 9: topics of docstrings learned with d numbers. ``python -m tools.sweeps.intrinsic_dimension``.

Writes data/sweeps/intrinsic_dimension.json, a row a run, with the columns of the sweep ``transfer``: d numbers behind a
random projection, pretrained body and random one. Two rates with seed 0; the better of them with the other seeds.
"""

from __future__ import annotations

from collections.abc import Iterator

from tools.sweeps.rows import Row, sweep, with_rates
from tools.sweeps.topic_tuning import BODIES, run
from utils import small_tuning as tuning

DIMENSIONS = (10, 100, 1000, 10_000)
EXAMPLES = 160
RATES = (3e-3, 1e-2)


def settings(seeds: int, rows: list[Row]) -> Iterator[Row]:
    """The pretrained body at every d, then the random one."""
    fixed = {"task": "topics", "input_scale": 0.0, "read": 0, "steps": tuning.STEPS, "examples": EXAMPLES}
    plans = [(fixed | {"body": body, "rung": f"d = {d}"}, RATES) for body in BODIES for d in DIMENSIONS]
    return with_rates(plans, seeds, rows)


if __name__ == "__main__":
    sweep("intrinsic_dimension", settings, run, batch=tuning.BATCH, warmup=tuning.WARMUP, every=tuning.EVERY)
