"""Operations and seconds: what a transformer computes, and the least time that this can take."""

from __future__ import annotations

import math
from numbers import Real
from typing import NamedTuple

from utils.planner.memory import kv_cache, memory, method_of
from utils.planner.sizes import TRAINED, Architecture, one_of, places


class Machine(NamedTuple):
    """Speeds that you measured on your machine: those of a data sheet are hardly ever reached."""

    flop_per_second: float
    bytes_per_second: float


class Flops(NamedTuple):
    """Operations by where they happen; a multiplication and an addition are two.

    Matrix products only, as torch's FlopCounterMode counts: no softmax, norm, nonlinearity or embedding. ``scores`` is
    the n² part, QKᵀ and PV, and the whole square in a decoder too: a kernel that skips the future needs about half.
    """

    projections: int
    scores: int
    ffn: int
    pooler: int = 0
    output: int = 0

    @property
    def total(self) -> int:
        return sum(self)


def layer_flops(architecture: Architecture, tokens: int, batch: int = 1) -> Flops:
    """Of one layer, forward: 8nd² + 4n²d + 16nd² for H d_h = d, H_kv = H and f = 4d."""
    a, entries = architecture, places(architecture, tokens, batch)
    return Flops(
        projections=entries * 4 * a.width * (a.query_width + a.key_width),
        scores=entries * 4 * tokens * a.query_width,
        ffn=entries * (6 if a.gated else 4) * a.width * a.ffn_width,
    )


def flops(architecture: Architecture, tokens: int, batch: int = 1) -> Flops:
    """Of a forward pass. The pooler reads one token of each text; the output scores every token."""
    a, layer = architecture, layer_flops(architecture, tokens, batch)
    return Flops(
        projections=a.layers * layer.projections,
        scores=a.layers * layer.scores,
        ffn=a.layers * layer.ffn,
        pooler=2 * batch * a.width**2 if a.pooler else 0,
        output=0 if a.output == "none" else 2 * tokens * batch * a.width * a.vocabulary,
    )


def training_flops(
    architecture: Architecture,
    tokens: int,
    batch: int = 1,
    *,
    trained: str = "everything",
    checkpointing: bool = False,
) -> int:
    """Of a forward and a backward pass: three forward passes.

    Matrices that stay as they are need no gradient of their own, so everything but the scores counts twice.
    Checkpointing computes the layers once more. The adapters' own operations, under a hundredth, are left out, and so
    are the optimiser's.
    """
    one_of("trained", trained, TRAINED[1:])
    forward = flops(architecture, tokens, batch)
    spared = 0 if trained == "everything" else forward.total - forward.scores
    again = forward.projections + forward.scores + forward.ffn if checkpointing else 0
    return 3 * forward.total - spared + again


def compute_crossover(architecture: Architecture) -> float:
    """Tokens at which the n² part of the operations equals all other work of a layer: 6d when f = 4d."""
    one = layer_flops(architecture, 1)
    return (one.projections + one.ffn) / one.scores


def seconds(
    architecture: Architecture,
    tokens: int,
    batch: int = 1,
    method: str = "inference float16",
    *,
    machine: Machine,
    checkpointing: bool = False,
    rank: int = 8,
) -> float:
    """A lower bound on the time of a forward pass, or of a training step: the slower of computing and reading weights.

    Weights are read once, gradients and optimiser states are read and written once. Left out are the traffic of
    activations and scores (which eager attention pays) and the time to start each kernel, which is why removing heads
    speeds up a batch of one far less than this bound says.
    """
    how = method_of(method)
    if how.trained == "nothing":
        work = flops(architecture, tokens, batch).total
    else:
        work = training_flops(architecture, tokens, batch, trained=how.trained, checkpointing=checkpointing)
    parts = memory(architecture, tokens, batch, method, rank=rank)
    moved = parts.weights + 2 * (parts.gradients + parts.optimiser)
    return _slower(work, moved, machine)


def seconds_per_token(
    architecture: Architecture,
    tokens: int,
    batch: int = 1,
    method: str = "inference float16",
    *,
    machine: Machine,
) -> float:
    """A lower bound on the time in which a decoder adds one token to each text of n tokens, with its cache.

    All weights and the whole cache are read for every token: with fewer key/value heads there is less to read.
    Raises ValueError for an encoder, which has no cache.
    """
    a, how = architecture, method_of(method)
    if a.kind != "decoder" or how.trained != "nothing":
        raise ValueError(f"kind {a.kind!r} with {method!r} does not generate: give a decoder and a method of inference")
    entries, one = places(a, tokens, batch), flops(a, 1, batch)
    work = one.total - one.scores + a.layers * 4 * entries * a.query_width
    moved = memory(a, tokens, batch, method).weights + kv_cache(a, tokens, batch, value_bytes=how.weight)
    return _slower(work, moved, machine)


def _slower(work: int, moved: int, machine: Machine) -> float:
    if not isinstance(machine, Machine):
        raise TypeError(f"machine is {machine!r}: give Machine(flop_per_second, bytes_per_second), as you measured")
    speeds = {name: positive(name, speed) for name, speed in machine._asdict().items()}
    return max(work / speeds["flop_per_second"], moved / speeds["bytes_per_second"])


def positive(name: str, value: float) -> float:
    """``value`` when it is a finite number above 0. Raises TypeError or ValueError."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} is {value!r} ({type(value).__name__}): give a number")
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"{name} is {value}: give a finite number above 0")
    return value
