"""Chapter 8: what a frozen encoder learns without language. ``python -m tools.sweeps.transfer``.

Writes data/sweeps/transfer.json, a row a run: accuracy on the validation and the test set, and the curve of the former.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator

from tools.sweeps.rows import sweep
from utils import transfer, transfer_rivals
from utils.transfer_tasks import TASKS, Task, digits, linear_baseline

RATES = (1e-4, 1e-3, 1e-2)  # the paper's rate, 1e-3, a tenth of it and ten times it
STEPS = {"digits": 100, "bit memory": 200, "bit xor": 150}
EVERY = {"digits": 25, "bit memory": 50, "bit xor": 25}
LARGE_INPUT = 0.3
EXAMPLES = 1000  # of digits
RUNGS = transfer.RUNGS | dict.fromkeys(transfer_rivals.NORMS, ("layernorm",))


def settings(seed: int) -> Iterator[dict]:
    """The ladder, full tuning and the small random body; seed 0 at every rate, the others where seed 0 did not fail."""
    trained, scaled, small = transfer.BODIES
    first = seed == 0
    yield from _digits(seed, ("output",), transfer.BODIES, RATES if first else RATES[1:])
    yield from _digits(seed, tuple(transfer.LADDER)[1:], (trained, scaled), RATES[1:])
    yield from _digits(seed, ("everything",), (trained, small), RATES if first else RATES[:2])  # 0.01 diverges
    yield from _digits(seed, ("+ positions",), (small,), RATES[1:])


def bits(seed: int) -> Iterator[dict]:
    """The two tasks with bits, four groups trained."""
    trained, scaled, small = transfer.BODIES
    runs = [*itertools.product((trained, scaled), RATES[1:] if seed == 0 else RATES[1:2]), (small, 1e-3)]
    for kind, rate in runs:
        yield _bits("bit xor", seed) | {"body": kind, "rung": "+ positions", "learning_rate": rate}
    for kind in (trained, scaled):
        yield _bits("bit memory", seed) | {"body": kind, "rung": "+ positions", "learning_rate": 3e-3}


def knobs(seed: int) -> Iterator[dict]:
    """Another read-out, fewer groups, a larger input."""
    both, first = transfer.BODIES[:2], seed == 0
    yield from _digits(seed, ("output",), both, RATES[1:], read=0)
    yield from _digits(seed, ("LayerNorm alone",), both, RATES[1:] if first else RATES[2:])
    yield from _digits(seed, ("input and output",), both, RATES[1:] if first else RATES[1:2])
    if first:
        yield from _digits(seed, ("+ positions",), both, RATES[1:], input_scale=LARGE_INPUT)


def later(seed: int) -> Iterator[dict]:
    """What comes after all seeds: the smallest rate."""
    yield from _digits(seed, ("+ positions",), transfer.BODIES[:2], RATES[:1])


def solved(seed: int) -> Iterator[dict]:
    """The rung "output" by logistic regression: no learning rate, no steps."""
    for scale in (transfer.INPUT_SCALE, LARGE_INPUT):
        yield from _digits(seed, ("output, solved",), transfer.BODIES, (0.0,), input_scale=scale, steps=0)


def finer(seed: int) -> Iterator[dict]:
    """Rates between and beyond the first three: with seed 0 to choose, with the others where seed 0 gained or tied."""
    trained, scaled, small = transfer.BODIES
    both, first = (trained, scaled), seed == 0
    yield from _digits(seed, ("+ LayerNorm", "+ input", "+ positions"), both, (3e-3,))
    yield from _digits(seed, ("LayerNorm alone",), both, (3e-3, 3e-2) if first else (3e-2,))
    yield from _digits(seed, ("everything",), (small,), (3e-4,))
    if not first:
        return
    yield from _digits(seed, ("output",), transfer.BODIES, (3e-3, 3e-2, 1e-1))
    yield from _digits(seed, ("+ LayerNorm",), both, (3e-2,))
    yield from _digits(seed, ("input and output",), both, (3e-3,))
    yield from _digits(seed, ("everything",), (trained,), (3e-4, 3e-5))
    yield from _digits(seed, ("+ positions",), (small,), (3e-2,))
    yield from _digits(seed, transfer_rivals.NORMS, both, (1e-2,))


def finer_bits(seed: int) -> Iterator[dict]:
    """Other rates for the small body on XOR and for memory, one seed."""
    trained, scaled, small = transfer.BODIES
    if seed == 0:
        for rate in (1e-2, 3e-3):
            yield _bits("bit xor", seed) | {"body": small, "rung": "+ positions", "learning_rate": rate}
        for kind, rate in itertools.product((trained, scaled), (1e-2, 1e-3)):
            yield _bits("bit memory", seed) | {"body": kind, "rung": "+ positions", "learning_rate": rate}


def _digits(seed: int, rungs: tuple, bodies: tuple, rates: tuple, **changed: object) -> Iterator[dict]:
    fixed = {"task": "digits", "examples": EXAMPLES, "input_scale": transfer.INPUT_SCALE, "read": 1}
    for rung, kind, rate in itertools.product(rungs, bodies, rates):
        own = {"seed": seed, "steps": STEPS["digits"], "body": kind, "rung": rung, "learning_rate": rate}
        yield fixed | own | changed


def _bits(name: str, seed: int) -> dict:
    task = TASKS[name]()
    fixed = {"task": name, "examples": len(task.train), "read": task.read, "steps": STEPS[name]}
    return fixed | {"input_scale": transfer.INPUT_SCALE, "seed": seed}


def queue(seeds: int) -> Iterator[dict]:
    """All runs: seed 0 complete, then the ladder of the others, then their knobs, at last what was added later."""
    first, others = range(min(1, seeds)), range(1, seeds)
    order = [(first, (solved, settings, knobs, bits)), (others, (solved, settings)), (others, (knobs, bits))]
    for some, parts in (*order, (range(seeds), (finer,)), (first, (finer_bits,)), (range(seeds), (later,))):
        for seed, part in itertools.product(some, parts):
            yield from part(seed)


def run(setting: dict) -> dict:
    """One row: a fresh body, new layers, training; deterministic for one machine and version of torch."""
    task = the_task(setting)
    net = transfer.Transferred(
        transfer.body(setting["body"], setting["seed"]), task, setting["seed"], setting["input_scale"]
    )
    if setting["rung"] == "output, solved":
        began = time.process_time()
        found = {"curve": [], "diverged": False} | transfer.solved_head(net, task)
        return setting | found | {"seconds": time.process_time() - began}
    if setting["rung"] in transfer_rivals.NORMS:
        transfer_rivals.keep_norms(net, setting["rung"])
    found = transfer.adapt(
        net,
        task,
        RUNGS[setting["rung"]],
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


def main() -> None:
    linear = {name: round(linear_baseline(task()), 4) for name, task in TASKS.items()}
    facts = {"linear": linear, "batch": transfer.BATCH, "warmup": transfer.WARMUP}
    sweep("transfer", lambda seeds, _: queue(seeds), run, **facts)


if __name__ == "__main__":
    main()
