"""What the benchmarks share: reports, fair times, counts of operations."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

import pandas as pd
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode, sdpa_flop_count

CPU_KERNEL = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu  # torch's own count does not know it


class Report(NamedTuple):
    """What a benchmark found: a table, how it was measured, and each bar with whether it was kept."""

    table: pd.DataFrame
    notes: str
    bars: dict[str, bool]


def take_turns(runs: Mapping[str, Callable[[], object]], repeats: int, warm_up: int = 1) -> dict[str, list[float]]:
    """Processor seconds of each run, ``repeats`` times, one after the other in every round."""
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for step in range(warm_up + repeats):
        for name, run in runs.items():
            start = time.process_time()
            run()
            if step >= warm_up:
                seconds[name].append(time.process_time() - start)
    return seconds


def ratios(whole: list[float], part: list[float]) -> tuple[float, float, float]:
    """Median, smallest and largest of the ratios whole / part, round by round."""
    each = [a / b for a, b in zip(whole, part, strict=True)]
    return statistics.median(each), min(each), max(each)


@torch.inference_mode()
def flops(model: nn.Module, inputs: Mapping[str, Tensor]) -> int:
    """Floating-point operations of one forward pass: the products of matrices, of sdpa's kernel too."""
    with FlopCounterMode(display=False, custom_mapping={CPU_KERNEL: _kernel}) as counter:
        model(**inputs)
    return counter.get_total_flops()


def _kernel(queries: torch.Size, keys: torch.Size, values: torch.Size, *_, out_shape=None, **__) -> int:
    """The count of sdpa's kernel; the counter passes the shapes of its tensors."""
    return sdpa_flop_count(queries, keys, values)
