"""Assessment "Apply": peaks of memory and processor time of layers of width 768, beside what utils.planner says.

python -m tools.sweeps.memory_peaks   3 to 5 minutes on one idle core, 4 GB; writes data/sweeps/memory_peaks.json

Bytes: all that torch records as allocated, with weights, gradients and optimiser states; random weights (seed 0), one
thread, 512 tokens. ``whole``: 12 layers and 30,522 words, BERT-base. Times: medians of processor time, variants in
turns; ``load`` is what else the machine had to do.
"""

from __future__ import annotations

import os
import time
from itertools import product

import torch

from tools.sweeps.record import made, write
from utils import memory_peaks as peaks
from utils import planner
from utils.attention_cost import processor_seconds

NAME = "memory_peaks"
TOKENS = 512
WHOLE = {"layers": 12, "vocabulary": 30522}
SHAPES = [(12, 3072), (9, 3072), (6, 3072), (3, 3072), (1, 3072), (12, 2048), (12, 1536), (6, 2048)]  # heads left, f
ROUNDS = 9


def row(kind: str, measured: int, expected: int, **facts: object) -> dict:
    print(
        kind, facts, f"{measured / 1e6:.1f} MB, planner {expected / 1e6:.1f} MB, {expected / measured:.4f}", flush=True
    )
    return {"kind": kind, **facts, "measured": measured, "planner": expected}


def passes() -> list[dict]:
    """Forward passes: one layer under other heads, kernels, batches; pruned; in bfloat16; and the whole BERT-base."""
    cases = [
        {"heads": heads, "attention": attention, "batch": batch}
        for heads, attention, batch in product((6, 8, 12, 16, 24), ("eager", "flash"), (1, 4))
    ]
    cases += [{"removed": removed, "attention": "eager", "batch": 4} for removed in (3, 6, 9)]
    cases += [{"dtype": "bfloat16", "attention": attention, "batch": 4} for attention in ("eager", "flash")]
    cases += [{"attention": attention, "batch": batch, **WHOLE} for attention in ("eager", "flash") for batch in (1, 4)]
    rows = []
    for case in cases:
        options = {key: value for key, value in case.items() if key not in ("batch", "dtype")}
        dtype = getattr(torch, case.get("dtype", "float32"))
        model, sizes = peaks.encoder(dtype=dtype, **options)
        found = peaks.inference(model, TOKENS, case["batch"])
        size = {"attention": case["attention"], "value_bytes": dtype.itemsize}
        rows.append(row("inference", found, peaks.inference_by_planner(sizes, TOKENS, case["batch"], **size), **case))
    return rows


def steps() -> list[dict]:
    """Training steps, eager attention: two layers, and the whole BERT-base."""
    cases = [
        {"method": method, "batch": batch, "checkpointing": again, "layers": 2}
        for method, batch, again in product(peaks.OPTIMISERS, (1, 4), (False, True))
    ]
    cases += [{"method": method, "batch": 1, "checkpointing": again, **WHOLE} for method in peaks.OPTIMISERS
              for again in (False, True)]  # fmt: skip
    cases += [{"method": "AdamW float32", "batch": 1, "checkpointing": False, "removed": 6, **WHOLE}]
    rows = []
    for case in cases:
        how = {key: case[key] for key in ("method", "checkpointing")}
        options = {key: value for key, value in case.items() if key not in ("batch", *how)}
        model, sizes = peaks.encoder(**options)
        found = peaks.training(model, TOKENS, case["batch"], **how)
        rows.append(row("training", found, peaks.training_by_planner(sizes, TOKENS, case["batch"], **how), **case))
    return rows


def caches() -> list[dict]:
    """Caches of a decoder of 12 layers in float32, four texts."""
    return [
        row("cache", *peaks.cache(kv_heads, TOKENS, 4), kv_heads=kv_heads, batch=4, layers=12)
        for kv_heads in (12, 6, 4, 3, 2, 1)
    ]


def times() -> list[dict]:
    """Seconds of a layer and its FLOPs, for heads that are left and widths of the feed-forward network."""
    ids, calls, work = torch.zeros(1, TOKENS, dtype=torch.long), {}, {}
    for (heads, f), attention in product(SHAPES, ("eager", "flash")):
        model, sizes = peaks.encoder(removed=12 - heads, ffn_width=f, attention=attention)
        calls[heads, f, attention] = lambda model=model: model(ids)
        work[heads, f, attention] = planner.flops(sizes, TOKENS).total
    rows = []
    for key, seconds in processor_seconds(calls, ROUNDS).items():
        names = dict(zip(("heads", "ffn_width", "attention"), key, strict=True))
        rows.append(names | {"seconds": float(f"{seconds:.3g}"), "flops": work[key]})
        print(rows[-1], flush=True)
    return rows


def main() -> None:
    torch.set_num_threads(1)
    began, load = time.time(), os.getloadavg()[0]
    result = {"bytes": [*passes(), *caches(), *steps()], "times": times()}
    facts = {"seed": 0, "tokens": TOKENS, "width": 768, "whole": WHOLE, "rounds": ROUNDS, "processors": os.cpu_count()}
    facts |= {"load": [round(load, 1), round(os.getloadavg()[0], 1)]}
    facts |= {"wall_seconds": round(time.time() - began), "processor_seconds": round(time.process_time())}
    write(NAME, {"made": made(NAME, **facts)} | result)


if __name__ == "__main__":
    main()
