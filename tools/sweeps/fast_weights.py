"""Chapter 6: small memories trained on retrieval, at full length. ``python -m tools.sweeps.fast_weights``.

Writes data/sweeps/fast_weights.json: setting 1 (error by number of symbols and feature map) and setting 2 (accuracy by
rule), each with several seeds. One thread; the chapter reruns a part with fewer steps.
"""

from __future__ import annotations

import argparse
import time

import torch

from tools.sweeps.record import made, write
from utils import retrieval
from utils.training import fit

D_KEY = 16
SYMBOLS = (8, 16, 32, 64, 96, 128)
FEATURES = (*retrieval.FEATURES, "softmax")
TEST_SEED = 10_000  # of the stream that accuracy is measured on; training streams have the seeds of the runs


def unique(steps: int, seeds: int) -> list[dict]:
    """Setting 1: one row a run, with the exact error before and after training."""
    rows = []
    for n in SYMBOLS:
        for feature in FEATURES:
            for seed in range(seeds):
                model = retrieval.KeyTable(n, D_KEY, feature, seed=seed)
                before = retrieval.exact_error(model)
                batches = retrieval.random_values(n)
                fit(model, batches, retrieval.retrieval_error, steps=steps, learning_rate=0.01, seed=seed)
                after = retrieval.exact_error(model)
                rows.append({"symbols": n, "feature": feature, "seed": seed, "before": before, "error": after})
                print(rows[-1], flush=True)
    return rows


def overwrite(steps: int, seeds: int) -> tuple[list[dict], float]:
    """Setting 2: one row a run, with the accuracy on 4,000 new sequences; and the ceiling of rules without order."""
    test = retrieval.reassigned(batch=4000)(torch.Generator().manual_seed(TEST_SEED))
    rows = []
    for rule in retrieval.RULES:
        for seed in range(seeds):
            model = retrieval.Memory(rule, seed=seed)
            batches = retrieval.reassigned()
            fit(model, batches, retrieval.naming_loss, steps=steps, learning_rate=3e-3, seed=seed)
            rows.append({"rule": rule, "seed": seed, "accuracy": retrieval.accuracy(model, test)})
            print(rows[-1], flush=True)
    return rows, retrieval.blind_ceiling(test)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.sweeps.fast_weights", description=__doc__)
    parser.add_argument("--steps", type=int, nargs=2, default=(600, 1200), help="of setting 1 and of setting 2")
    parser.add_argument("--seeds", type=int, nargs=2, default=(3, 3), help="of setting 1 and of setting 2")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    began = time.process_time()
    second, ceiling = overwrite(options.steps[1], options.seeds[1])
    first = unique(options.steps[0], options.seeds[0])
    facts = {"d_key": D_KEY, "steps": options.steps, "seeds": options.seeds, "test_seed": TEST_SEED}
    content = made("fast_weights", **facts, processor_seconds=round(time.process_time() - began))
    tables = {"unique": _rounded(first), "overwrite": _rounded(second)}
    write("fast_weights", content | {"blind_ceiling": round(ceiling, 4)} | tables)


def _rounded(rows: list[dict]) -> list[dict]:
    return [{k: float(f"{v:.4g}") if isinstance(v, float) else v for k, v in row.items()} for row in rows]


if __name__ == "__main__":
    main()
