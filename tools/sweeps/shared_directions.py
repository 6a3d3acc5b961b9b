"""How few directions can the heads of a layer share? ``python -m tools.sweeps.shared_directions``.

MiniLM's sentence embeddings when each layer keeps D directions of its query–key products (or value–output products):
the same for all heads, D/12 private ones a head, or random ones. About 5 minutes on one core. The chapter on routing
reruns a few of the rows with fewer passages.
"""

from __future__ import annotations

import argparse

import torch
from torch import Tensor, nn

from tools.sweeps.record import made, write
from utils.models import load
from utils.probes import equal_length
from utils.subspaces import PARTS, restricted

TEXTS, WORDS, TOKENS, SEEDS = 48, 50, 64, 3
DIRECTIONS = (384, 288, 240, 192, 144, 104, 96, 72, 48, 24)


@torch.no_grad()
def embeddings(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
    """Mean of the last states, at length 1: (texts, width). No padding may be in the batch."""
    mean = model(**batch).last_hidden_state.mean(1)
    return mean / mean.norm(dim=-1, keepdim=True)


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    torch.set_num_threads(1)
    model, tokenizer = load("minilm")
    batch = {"input_ids": equal_length(tokenizer, TOKENS, WORDS, TEXTS)}
    whole = embeddings(model, batch)
    table = []
    for part in PARTS:
        for directions in DIRECTIONS:
            for how in ("shared", "private", "random"):
                if how == "private" and directions % 12:
                    continue
                for seed in range(SEEDS if how == "random" else 1):
                    with restricted(model, directions, how, part, seed):
                        cosine = (embeddings(model, batch) * whole).sum(-1)
                    low, middle, high = cosine.quantile(torch.tensor([0.1, 0.5, 0.9])).tolist()
                    numbers = [float(cosine.mean()), low, middle, high]
                    table.append([part, how, directions, seed, *(round(n, 4) for n in numbers)])
        print(f"{part}: {len(table)} rows", flush=True)
    facts = {
        "model": "minilm",
        "passages": len(whole),
        "tokens": TOKENS,
        "seeds": f"random directions 0 to {SEEDS - 1}",
    }
    columns = ["part", "how", "directions", "seed", "mean", "p10", "median", "p90"]
    print(write("shared_directions", made("shared_directions", **facts) | {"columns": columns, "rows": table}))


if __name__ == "__main__":
    main()
