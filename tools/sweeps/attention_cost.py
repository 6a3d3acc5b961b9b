"""Chapter 10: processor time and peak memory of seven ways to attend, and of a MiniLM-sized layer's other work.

python -m tools.sweeps.attention_cost   about 1 minute on one idle core; writes data/sweeps/attention_cost.json

Times: medians of processor time, methods in turns, one thread; ``load`` is what else the machine had to do. Bytes:
counted by torch's record of allocations; ``resident`` is the growth of the resident memory of a child process (which
does not import transformers), as a check. ``kept``: the layer with an allocator that gives no memory back to the
system, so that no call has to ask for new pages. Inputs are random (seed 0): time does not depend on them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from resource import RUSAGE_SELF, getrusage

import torch

from tools.sweeps.record import made, write
from utils import attention_cost as cost
from utils.efficient_attention import eager

NAME = "attention_cost"
LENGTHS = (128, 256, 512, 1024, 2048, 4096, 8192)
WIDTH, HEADS = 384, 12  # the layer, as MiniLM's
LAYER_LENGTHS = LENGTHS[:-1]
LONGEST = 65536
KEPT_LENGTHS = (512, 1024, 2048)
KEEP = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(2**40)}  # glibc: what is freed stays with the process


def rounds(n: int) -> int:
    return 15 if n <= 512 else 7 if n <= 2048 else 3


def ways() -> list[dict]:
    """A row a length and method: seconds, counted bytes, counted operations; 4 heads of 32."""
    rows = []
    for n in LENGTHS:
        inputs = cost.draw(n)
        calls = {name: lambda f=f, x=inputs: f(*x) for name, f in cost.methods(n).items()}
        times = cost.processor_seconds(calls, rounds(n))
        for name, call in calls.items():
            row = {"method": name, "n": n, "seconds": float(f"{times[name]:.3g}")}
            rows.append(row | {"bytes": cost.peak_bytes(call), "flops": cost.counted_flops(call)})
        print(n, {name: f"{1e3 * t:.2f} ms" for name, t in times.items()}, flush=True)
    return rows


def layer(n: int) -> dict:
    """Seconds of the work that is linear in n, and of the attention of 12 heads, eager and fused.

    pages: how many pages of memory the system hands out during one call of eager attention, 0 when it has kept them.
    """
    calls = cost.layer_calls(n, width=WIDTH, heads=HEADS)
    times = cost.processor_seconds(calls, rounds(n))
    before = getrusage(RUSAGE_SELF).ru_minflt
    calls["eager"]()
    row = {"n": n} | {name: float(f"{t:.3g}") for name, t in times.items()}
    return row | {"pages": getrusage(RUSAGE_SELF).ru_minflt - before}


def in_a_child(what: str, n: int, **environment: str) -> float | dict:
    """What a process of its own prints, started with these variables."""
    done = subprocess.run(
        [sys.executable, "-m", "tools.sweeps.attention_cost", what, str(n)],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | environment,
    )
    return json.loads(done.stdout)


def child(method: str, n: int) -> None:
    """Print a row of ``layer``, or the megabytes by which the peak of resident memory grows in one call of a method."""
    if method == "layer":
        with torch.no_grad():
            return print(json.dumps(layer(n)))
    (call,) = cost.methods(n, names=(method,)).values()
    inputs, small = cost.draw(n), cost.draw(256)
    with torch.no_grad():
        cost.methods(256, names=(method,))[method](*small)
        before = high_water()
        call(*inputs)
    print(round((high_water() - before) / 1e6, 1))


def high_water() -> int:
    """Peak of resident memory, bytes; Linux. (ru_maxrss would count the parent's, from before the child's exec.)"""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


def longest() -> dict:
    """SDPA on 65,536 tokens, one head: seconds, counted bytes, and the difference to eager attention on 256 queries."""
    q, k, v = cost.draw(LONGEST, heads=1)
    call = cost.methods(LONGEST, names=("SDPA",))["SDPA"]
    began = time.process_time()
    with torch.no_grad():
        found = call(q, k, v)
        seconds = time.process_time() - began
        some = torch.arange(0, LONGEST, LONGEST // 256)
        gap = (found[:, :, some] - eager(q[:, :, some], k, v)).abs().max()
    held = cost.peak_bytes(lambda: call(q, k, v))
    print("longest", seconds, held, float(gap), flush=True)
    return {"n": LONGEST, "seconds": float(f"{seconds:.3g}"), "bytes": held, "gap": float(f"{float(gap):.1e}")}


def main() -> None:
    torch.set_num_threads(1)
    if len(sys.argv) > 1:
        return child(sys.argv[1], int(sys.argv[2]))
    began, load = time.time(), os.getloadavg()[0]
    facts = {"seed": 0, "heads": 4, "d_head": 32, "reach": cost.REACH, "rank": cost.RANK, "features": cost.FEATURES}
    facts |= {"layer": {"width": WIDTH, "heads": HEADS}}
    result = {"methods": ways(), "layer": [layer(n) for n in LAYER_LENGTHS], "longest": longest()}
    result["kept"] = [in_a_child("layer", n, **KEEP) for n in KEPT_LENGTHS]
    others = [name for name in cost.METHODS if "mask" not in name]  # making a mask takes more than attending
    result["resident"] = [
        {"method": name, "n": n, "megabytes": in_a_child(name, n)} for name in others for n in (4096, 8192)
    ]
    facts |= {"load": [round(load, 1), round(os.getloadavg()[0], 1)], "processors": os.cpu_count()}
    facts |= {"wall_seconds": round(time.time() - began), "processor_seconds": round(time.process_time())}
    write(NAME, {"made": made(NAME, **facts)} | result)


if __name__ == "__main__":
    main()
