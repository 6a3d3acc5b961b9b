"""Chapter 9: which weights carry what pretraining brought. ``python -m tools.sweeps.transplants``.

Writes data/sweeps/transplants.json, a row a body: some groups of MiniLM's weights, all others random of the same
spread; a logistic regression on its frozen features, for digits and for topics of docstrings.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator

from tools.sweeps.rows import Row, sweep
from utils import small_tuning as tuning
from utils import transfer
from utils.topics import topics
from utils.transfer_tasks import digits

EXAMPLES = {"topics": 160, "digits": 200}


def settings(seeds: int, rows: list[Row]) -> Iterator[Row]:
    """Every body with every seed (of the random weights, the input layer and the examples)."""
    for seed, (kind, parts), task in itertools.product(range(seeds), tuning.TRANSPLANTS.items(), EXAMPLES):
        if task == "digits" and set(parts) ^ set(tuning.PARTS) == {"words"}:
            continue  # digits need no words
        yield {
            "task": task,
            "body": kind,
            "rung": "output, solved",
            "learning_rate": 0.0,
            "seed": seed,
            "examples": EXAMPLES[task],
            "input_scale": transfer.INPUT_SCALE if task == "digits" else 0.0,
            "read": 1 if task == "digits" else 0,
            "steps": 0,
        }


def run(setting: Row) -> Row:
    """One body; deterministic for one machine and version of torch."""
    began, seed = time.process_time(), setting["seed"]
    body = tuning.transplanted(tuning.TRANSPLANTS[setting["body"]], seed)
    if setting["task"] == "digits":
        body.embeddings.word_embeddings = None
        task = digits(1).first(setting["examples"])
        found = transfer.solved_head(transfer.Transferred(body, task, seed, setting["input_scale"]), task)
    else:
        task = topics().sample(setting["examples"], seed)
        net = tuning.Reader(body, len(task.topics))
        tuning.train_parts(net, ())
        found = tuning.solved(tuning.sentence_features(net, task), task) | {"trained": tuning.trained_numbers(net)}
        found = {name: found[name] for name in ("trained", "validation", "test")}
    return {"curve": [], "diverged": False} | found | {"seconds": time.process_time() - began}


if __name__ == "__main__":
    sweep("transplants", settings, run)
