"""Chapter 9: learning curves on digits, pretrained and not. ``python -m tools.sweeps.computation_primitives``.

Writes data/sweeps/computation_primitives.json, a row a run, with the columns of the sweep ``transfer`` and validation
accuracy every 10 steps. Two rates for each setting with seed 0; the better of them with the other seeds.
"""

from __future__ import annotations

from collections.abc import Iterator

from tools.sweeps.rows import Row, sweep, with_rates
from utils import transfer
from utils.transfer_tasks import digits

SIZES = (50, 200, 1000)
STEPS, EVERY = 100, 10
TRAINED, SCALED, SMALL = transfer.BODIES
PLANS = (
    ("+ positions", TRAINED, (1e-3, 3e-3)),
    ("+ positions", SCALED, (1e-3, 3e-3)),
    ("everything", TRAINED, (3e-5, 1e-4)),
    ("everything", SMALL, (1e-4, 3e-4)),
)


def settings(seeds: int, rows: list[Row]) -> Iterator[Row]:
    """Four groups of a frozen body, or everything, at three sizes."""
    fixed = {"task": "digits", "input_scale": transfer.INPUT_SCALE, "read": 1, "steps": STEPS}
    plans = [
        (fixed | {"body": kind, "rung": rung, "examples": examples}, rates)
        for examples in SIZES
        for rung, kind, rates in PLANS
    ]
    return with_rates(plans, seeds, rows)


def run(setting: Row) -> Row:
    """One run with a fresh body; deterministic for one machine and version of torch."""
    task = digits(setting["read"]).first(setting["examples"])
    body = transfer.body(setting["body"], setting["seed"])
    net = transfer.Transferred(body, task, setting["seed"], setting["input_scale"])
    options = {name: setting[name] for name in ("learning_rate", "steps", "seed")}
    return transfer.adapt(net, task, transfer.RUNGS[setting["rung"]], every=EVERY, **options)


if __name__ == "__main__":
    sweep("computation_primitives", settings, run, batch=transfer.BATCH, warmup=transfer.WARMUP, every=EVERY)
