"""What can be read out of the residual stream, of joined heads and of one head: ``python -m tools.sweeps.probes``.

Ridge probes for the 100 commonest tokens, split by passage, on MiniLM and on the same model with random weights. About
7 minutes on one core. The chapter on routing reruns one split of two layers with fewer passages.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import torch
from torch import Tensor

from tools.sweeps.record import made, write
from utils.models import load, untrained
from utils.probes import (
    IGNORED,
    common_targets,
    equal_length,
    majority,
    probe_accuracy,
    random_projection,
    shifted,
    split_by_text,
)
from utils.routing import LayerStates, layer_states

WORDS, TOKENS, CLASSES, SPLITS, NULLS, SAMPLES = 50, 64, 100, 3, 2, 4
OFFSETS = (-2, -1, 0, 1, 2)
COLUMNS = ("model", "split", "what", "layer", "head", "offset", "accuracy", "share", "majority")
LEAST = 0.1  # of the positions must have a most-read token among the classes, else no probe for it


def states(model, ids: Tensor, size: int = 16) -> list[LayerStates]:
    """The states of each layer, texts joined."""
    parts = [layer_states(model, {"input_ids": some}) for some in ids.split(size)]
    return [LayerStates(*(torch.cat(each) for each in zip(*layer, strict=True))) for layer in zip(*parts, strict=True)]


def most_read(weights: Tensor, targets: Tensor) -> Tensor:
    """The target of the token that each query reads most: weights (texts, queries, keys) → (texts, queries)."""
    return targets.gather(1, weights.argmax(-1))


def rows(found: list[LayerStates], targets: Tensor, train: Tensor) -> Iterator[dict]:
    """Accuracies of one split: what, layer, head, offset, accuracy."""
    near = {offset: shifted(targets, offset) for offset in OFFSETS}
    for layer, state in enumerate(found):
        wide = {"residual": state.hidden, "joined": state.outputs.flatten(2)}
        for what, features in wide.items():
            for offset, wanted in near.items():
                yield row(what, layer, -1, offset, probe_accuracy(features, wanted, train))
            for sample in range(SAMPLES):
                small = random_projection(features, state.values.shape[-1], seed=100 * layer + sample)
                yield row(f"{what}, 32 random", layer, sample, 0, probe_accuracy(small, near[0], train))
        for head in range(state.values.shape[2]):
            for offset, wanted in near.items():
                yield row("head", layer, head, offset, probe_accuracy(state.outputs[:, :, head], wanted, train))
            yield row("value", layer, head, 0, probe_accuracy(state.values[:, :, head], near[0], train))
            read = most_read(state.weights[:, head], targets)
            share = float((read != IGNORED).double().mean())
            if share >= LEAST:
                accuracy = probe_accuracy(state.outputs[:, :, head], read, train)
                extra = {"share": share, "majority": majority(read, train)}
                yield row("most read", layer, head, 0, accuracy) | extra


def row(what: str, layer: int, head: int, offset: int, accuracy: float) -> dict:
    return {"what": what, "layer": layer, "head": head, "offset": offset, "accuracy": accuracy}


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    torch.set_num_threads(1)
    trained, tokenizer = load("minilm")
    ids = equal_length(tokenizer, TOKENS, WORDS)
    ordinary = torch.ones_like(ids, dtype=torch.bool)
    ordinary[:, [0, -1]] = False
    targets = common_targets(ids, ordinary, CLASSES)
    splits = [split_by_text(len(targets), seed) for seed in range(SPLITS)]
    table = []
    for name, model in {"trained": trained, **{f"untrained {s}": untrained(trained, s) for s in range(NULLS)}}.items():
        found = states(model, ids)
        for seed, train in enumerate(splits[: SPLITS if name == "trained" else 1]):
            for each in rows(found, targets, train):
                rounded = {k: round(v, 4) if isinstance(v, float) else v for k, v in each.items()}
                table.append({"model": name, "split": seed, **rounded})
            print(f"{name}, split {seed}: {len(table)} rows", flush=True)
    facts = {
        "model": "minilm",
        "passages": len(targets),
        "tokens": TOKENS,
        "classes": CLASSES,
        "positions with a target": int((targets != IGNORED).sum()),
        "majority": [round(majority(targets, train), 4) for train in splits],
        "seeds": f"splits 0 to {SPLITS - 1}; random weights 0 to {NULLS - 1}; random projections 100·layer + sample",
    }
    print(
        write(
            "probes",
            made("probes", **facts) | {"columns": COLUMNS, "rows": [[r.get(name) for name in COLUMNS] for r in table]},
        )
    )


if __name__ == "__main__":
    main()
