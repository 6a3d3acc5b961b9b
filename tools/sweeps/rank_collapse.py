"""Chapter 7: MiniLM taken apart on longer texts, deep stacks without training, and MiniLM without its sink.

python -m tools.sweeps.rank_collapse   about 3 minutes of one core; writes data/sweeps/rank_collapse.json

Everything in float64. The notebook reruns MiniLM on 8 texts of 64 tokens, and some of the deep stacks.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from itertools import product

import torch
from torch import Tensor

from tools.sweeps.record import made, write
from utils import low_rank, measures
from utils import rank_collapse as rc
from utils.models import MINILM_SHA256, load, untrained
from utils.random_stacks import random_stack

NAME = "rank_collapse"
TEXTS, N = 16, 128
SEEDS = (0, 1, 2, 3, 4)  # of the stacks; the untrained MiniLMs use the first three
STACKS = {  # width 64, 4 heads, 48 layers
    "gain 1": {"gain": 1.0},
    "gain 1, branches scaled by 1/√48": {"gain": 1.0, "branch": 48**-0.5},
    "gain 0.39": {"gain": 0.39},
}
DEPTHS = (0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48)
PLACES = (30, 60, 90)  # of the token that is changed


def switches() -> Iterator[dict[str, bool]]:
    """All eight combinations."""
    for skip, mlp, norm in product((True, False), repeat=3):
        yield {"skip": skip, "mlp": mlp, "norm": norm}


def digits(values: Tensor) -> list[float]:
    """Three significant digits of each value."""
    return [float(f"{value:.3g}") for value in values.tolist()]


def combinations(model, ids: Tensor) -> list[dict]:
    """A row a model and combination: mean, least and greatest residual over the texts, layer by layer."""
    rows = []
    for weights in ("trained", *SEEDS[:3]):
        chosen = model if weights == "trained" else untrained(model, weights)
        for parts in switches():
            found = torch.cat([_residuals(chosen, chunk, parts) for chunk in ids.split(8)], dim=1)
            rows.append({"weights": weights} | parts | {"mean": digits(found.mean(1))})
            rows[-1] |= {"least": digits(found.amin(1)), "greatest": digits(found.amax(1))}
        print("combinations", weights, flush=True)
    return rows


def _residuals(model, ids: Tensor, parts: dict) -> Tensor:
    return measures.rank_residual(rc.states(model, rc.embedded(model, ids), **parts))


def deep(model, ids: Tensor) -> list[dict]:
    """A row a stack, seed and combination: mean residual at some depths. Stacks, and MiniLM's shape with 24 layers."""
    rows = []
    for (kind, options), seed in product(STACKS.items(), SEEDS):
        stack, hidden = random_stack(48, **options, seed=seed), measures.null_states(64, 64, samples=3, seed=seed)
        rows += _deep_rows(stack, hidden, {"stack": kind, "seed": seed}, DEPTHS)
        print("deep", kind, seed, flush=True)
    longer = copy.copy(model)
    longer.config = copy.deepcopy(model.config)
    longer.config.num_hidden_layers = 24
    for seed in SEEDS[:3]:
        stack = untrained(longer, seed)
        facts = {"stack": "MiniLM's shape, 24 layers, BERT's start", "seed": seed}
        rows += _deep_rows(stack, rc.embedded(stack, ids[:4, :64]), facts, DEPTHS[:-2])
        print("deep MiniLM", seed, flush=True)
    return rows


def _deep_rows(stack, hidden: Tensor, facts: dict, depths: tuple[int, ...]) -> list[dict]:
    rows = []
    for parts in switches():
        found = measures.rank_residual(rc.states(stack, hidden, **parts)).mean(1)[list(depths)]
        rows.append(facts | parts | {"depths": depths, "residual": digits(found)})
    return rows


def edits(n: int) -> dict[str, rc.Edit | None]:
    """What is done to the maps of n tokens: [CLS] or an ordinary token out, the rest rescaled or left as it is."""
    cls, token = torch.ones(n), torch.ones(n)
    cls[0], token[n // 2] = 0, 0
    return {
        "as it is": None,
        "no [CLS], rows rescaled": rc.masked(cls),
        "no [CLS], rows not rescaled": lambda _, weights: weights * cls,
        "no token in the middle, rows rescaled": rc.masked(token),
    }


def sinks(model, ids: Tensor) -> list[dict]:
    """A row a model and edit: how far a changed token moves the others, the residual of ordinary tokens."""
    rows = []
    for weights in ("trained", 0):
        chosen = model if weights == "trained" else untrained(model, weights)
        hidden = rc.embedded(chosen, ids)
        for name, edit in edits(ids.shape[1]).items():
            if weights != "trained" and "middle" in name:
                continue
            moved = []
            for place in PLACES:
                changed = ids.clone()
                changed[:, place] = ids.roll(1, 0)[:, place]
                fits = (changed != ids).any(-1)
                moved.append(rc.spread(chosen, ids[fits], changed[fits], edit=edit))
            states = rc.states(chosen, hidden, edit=edit)[:, :, 1:-1]
            moved = torch.cat(moved, dim=1)
            rows.append({"weights": weights, "edit": name, "moved": digits(moved.mean(1)), "pairs": moved.shape[1]})
            rows[-1]["residual"] = digits(measures.rank_residual(states).mean(1))
            print(rows[-1], flush=True)
    return rows


def main() -> None:
    torch.set_num_threads(1)
    model, tokenizer = load("minilm", dtype=torch.float64)
    ids = low_rank.token_windows(tokenizer, N, TEXTS)
    result = {"made": made(NAME, texts=TEXTS, n=N, seeds=SEEDS, places=PLACES, model=MINILM_SHA256)}
    parts = {"combinations": combinations, "deep": deep, "sinks": lambda model, ids: sinks(model, ids[:8])}
    for name, part in parts.items():
        result[name] = part(model, ids)
        write(NAME, result)


if __name__ == "__main__":
    main()
