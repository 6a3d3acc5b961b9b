"""Cost of ways to attend: counted operations, counted bytes, and processor time side by side.

Operations and bytes are counts and come out the same on every machine; times are those of the machine at that moment,
so what is compared is measured in turns and reported as a median. Shapes: queries, keys, values (batch, heads, n, d).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from torch.utils.flop_counter import FlopCounterMode, sdpa_flop_count

from utils import efficient_attention as ea
from utils.fast_weights import elu_plus_one

METHODS = ("eager", "SDPA", "window", "SDPA, window as a mask", "Linformer", "linear", "Performer")
REACH, RANK, FEATURES = 128, 128, 128  # window to either side, rows of E, random features
FUSED = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu  # torch's counter does not know it by itself


def draw(n: int, *, heads: int = 4, d_head: int = 32, scale: float = 1.0, seed: int = 0) -> Tensor:
    """Random queries, keys and values with entries N(0, scale²), values N(0, 1): (3, 1, heads, n, d_head)."""
    found = torch.randn(3, 1, heads, n, d_head, generator=torch.Generator().manual_seed(seed))
    found[:2] *= scale
    return found


def methods(n: int, *, d_head: int = 32, names: Sequence[str] = METHODS, seed: int = 0) -> dict[str, Callable]:
    """Name → function of (queries, keys, values) for texts of n tokens; matrices are made beforehand.

    Linformer's E and F are the same Gaussian matrix (RANK, n), Performer has FEATURES directions, windows reach REACH
    tokens to either side. Raises ValueError for an unknown name.
    """
    if unknown := [name for name in names if name not in METHODS]:
        raise ValueError(f"no method is called {unknown[0]!r}: there are {', '.join(METHODS)}")
    chosen = {}
    for name in names:
        if name == "eager":
            chosen[name] = ea.eager
        elif name == "SDPA":
            chosen[name] = scaled_dot_product_attention
        elif name == "window":
            chosen[name] = partial(ea.windowed, reach=REACH)
        elif name == "SDPA, window as a mask":
            chosen[name] = partial(scaled_dot_product_attention, attn_mask=ea.window_mask(n, REACH))
        elif name == "Linformer":  # as utils.low_rank.projected, which this module does not import: it needs more
            e = torch.randn(RANK, n, generator=torch.Generator().manual_seed(seed)) / RANK**0.5
            chosen[name] = lambda q, k, v, e=e: ea.eager(q, e @ k, e @ v)
        elif name == "linear":
            chosen[name] = lambda q, k, v: ea.from_features(elu_plus_one(q), elu_plus_one(k), v)
        else:
            chosen[name] = partial(ea.performer, w=ea.directions(FEATURES, d_head, seed))
    return chosen


def layer_calls(n: int, *, width: int = 384, heads: int = 12, seed: int = 0) -> dict[str, Callable[[], Tensor]]:
    """A layer of MiniLM's size in three parts to time: its work that is linear in n, and its attention in two ways.

    "rest": four projections, the feed-forward network, two norms. "eager" and "SDPA": softmax(Q Kᵀ / √d_head) V of all
    heads. Weights and input are random: time does not depend on them.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        project, output = nn.Linear(width, 3 * width), nn.Linear(width, width)
        ffn = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        norms, x = (nn.LayerNorm(width), nn.LayerNorm(width)), torch.randn(1, n, width)
    q, k, v = project(x).detach().unflatten(-1, (3, heads, -1)).permute(2, 0, 3, 1, 4).contiguous()

    def rest() -> Tensor:
        project(x)
        y = norms[0](x + output(x))
        return norms[1](y + ffn(y))

    attend = methods(n, names=("eager", "SDPA"))
    return {"rest": rest} | {name: lambda f=f: f(q, k, v) for name, f in attend.items()}


@torch.no_grad()
def processor_seconds(calls: Mapping[str, Callable[[], object]], rounds: int = 5) -> dict[str, float]:
    """Median of the processor time of each call, in seconds. One call of each is made first; then they take turns."""
    for call in calls.values():
        call()
    found: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            began = time.process_time()
            call()
            found[name].append(time.process_time() - began)
    return {name: float(np.median(each)) for name, each in found.items()}


@torch.no_grad()
def peak_bytes(call: Callable[[], object]) -> int:
    """The most bytes that a call holds at a time beside its inputs, by torch's own record of each allocation."""
    watched = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True)
    with _silent(), watched as record:
        result = call()
    del result
    now = peak = 0
    for event in record.profiler.kineto_results.events():
        if event.name() == "[memory]":
            now += event.nbytes()
            peak = max(peak, now)
    return peak


@contextmanager
def _silent() -> Iterator[None]:
    """Nothing that libraries below Python write to the standard error: the profiler says when it starts and stops."""
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


@torch.no_grad()
def counted_flops(call: Callable[[], object]) -> int:
    """Operations of a call's matrix products, a multiplication and an addition are two; a mask saves none."""

    def fused(query: Sequence[int], key: Sequence[int], value: Sequence[int], *_: object, **__: object) -> int:
        return sdpa_flop_count(query, key, value)

    with FlopCounterMode(display=False, custom_mapping={FUSED: fused}) as counter:
        call()
    return counter.get_total_flops()


def slopes(n: Sequence[float], values: Sequence[float]) -> np.ndarray:
    """Slope between neighbouring points in a log–log plot, (points − 1, ...): 1 is linear in n, 2 quadratic.

    values: (points,) or (points, series).
    """
    values = np.log(np.asarray(values, dtype=float))
    steps = np.diff(np.log(n)).reshape(-1, *[1] * (values.ndim - 1))
    return np.diff(values, axis=0) / steps


def crossover(n: Sequence[float], ours: Sequence[float], theirs: Sequence[float]) -> float:
    """The n from which on ``ours`` stays below ``theirs``, between measured points on a log–log line.

    The smallest n when it is below throughout; infinity when it ends above.
    """
    gap = np.log(np.asarray(ours, float)) - np.log(np.asarray(theirs, float))
    above = np.flatnonzero(gap >= 0)
    if not len(above):
        return float(n[0])
    last = above[-1]
    if last == len(gap) - 1:
        return float("inf")
    share = gap[last] / (gap[last] - gap[last + 1])
    return float(np.exp(np.log(n[last]) + share * np.log(n[last + 1] / n[last])))
