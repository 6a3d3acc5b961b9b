"""Chapter 9: topics of docstrings with few examples. ``python -m tools.sweeps.topic_tuning``.

Writes data/sweeps/topic_tuning.json, a row a run, with the columns of the sweep ``transfer``: LoRA and everything, by
number of examples. Two rates with seed 0; the better of them with the other seeds.
"""

from __future__ import annotations

from collections.abc import Iterator

from tools.sweeps.rows import Row, sweep, with_rates
from utils import adapters
from utils import small_tuning as tuning
from utils.topics import topics

SIZES = (40, 160)
RANK = 4
RATES = {"LoRA": (1e-3, 5e-3), "everything": (1e-4, 3e-4)}
BODIES = {"pretrained": tuple(tuning.PARTS), "random": ()}


def settings(seeds: int, rows: list[Row]) -> Iterator[Row]:
    """LoRA and everything, each started at its solved head, at two sizes."""
    fixed = {"task": "topics", "input_scale": 0.0, "read": 0, "steps": tuning.STEPS}
    kinds = (("pretrained", "LoRA"), ("pretrained", "everything"), ("random", "everything"))
    plans = [
        (fixed | {"body": body, "rung": rung, "examples": examples}, RATES[rung])
        for examples in SIZES
        for body, rung in kinds
    ]
    return with_rates(plans, seeds, rows)


def run(setting: Row) -> Row:
    """One run with a fresh body; deterministic for one machine and version of torch."""
    task, seed = topics().sample(setting["examples"], setting["seed"]), setting["seed"]
    net = tuning.Reader(tuning.transplanted(BODIES[setting["body"]], seed), len(task.topics))
    if setting["rung"].startswith("d = "):
        net = adapters.Projected(net, int(setting["rung"].removeprefix("d = ")), seed)
    else:
        tuning.solve_head(net, task)
        adapters.add_lora(net, RANK, seed) if setting["rung"] == "LoRA" else tuning.train_parts(net)
    return tuning.tune(net, task, learning_rate=setting["learning_rate"], steps=setting["steps"], seed=seed)


if __name__ == "__main__":
    sweep("topic_tuning", settings, run, batch=tuning.BATCH, warmup=tuning.WARMUP, every=tuning.EVERY, rank=RANK)
