"""Chapter 11: tiny models that learn to copy, many times over. ``python -m tools.sweeps.open_questions``.

Writes data/sweeps/open_questions.json: one run watched step by step, the same training from six initialisations
with several orders of texts, tickets (two heads rewound to their start and trained again), and other architectures.
Runs that are already there are kept; ``--again NAME`` makes a part anew.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from tools.sweeps.record import made, write
from utils import induction as ind
from utils.payload import weights_to_codes
from utils.sweeps import FOLDER, sweep

NAME = "open_questions"
INITS, ORDERS, SEEDS = 6, 4, 3
RANDOM, FRESH = 2, 1  # other pairs, and pairs with fresh weights, beside each ticket
EFFECTS = {"batch": 128, "seed": 10_001}  # texts that say which heads matter; accuracy has texts of its own
TEXT = 18  # tokens of the text that the watched run reads: a segment of nine, twice
SHOWN = (*range(0, 200, 10), 200, 240, 300)  # steps of the watched run whose maps are kept
VARIANTS = {
    "2 layers, 1 head": ({"heads": 1}, 300),
    "1 layer, 4 heads": ({"layers": 1}, 600),
    "2 layers, no skip": ({"skip": False}, 600),
    "1 layer, feed-forward": ({"layers": 1, "mlp": True}, 600),
    "2 layers, 8 heads": ({"heads": 8}, 300),
}

Job = Callable[[list[dict]], dict]  # the rows so far → the next row


def watched() -> Iterator[Job]:
    """Init 0, order 0: scores of all heads every ten steps, and at some steps the maps of the two heads that win."""

    def run(_: list[dict]) -> dict:
        segment = torch.randperm(ind.VOCABULARY, generator=torch.Generator().manual_seed(5))[: TEXT // 2]
        text, batch = segment.repeat(2)[None], ind.held_out()

        @torch.no_grad()
        def look(model: ind.TinyModel) -> tuple[ind.Watched, list[Tensor]]:
            return ind.watch(model, batch), [each[0] for each in model(text, need_weights=True).attentions]

        history, seen = ind.train(ind.TinyModel(seed=0), seed=0, look=look)
        last = seen[-1][0]
        heads = [int(last.previous[0].argmax()), int(last.induction[1].argmax())]
        below = torch.ones(TEXT, TEXT, dtype=torch.bool).tril()
        codes = {
            step: [
                weights_to_codes(maps[head].numpy())[below].tolist()
                for maps, head in zip(seen[step // 10][1], heads, strict=True)
            ]
            for step in SHOWN
        }
        curve = [
            {"step": 10 * i, "loss": round(s.loss, 3), "accuracy": round(s.accuracy, 3)}
            | {"previous": _numbers(s.previous[0]), "induction": _numbers(s.induction[1])}
            for i, (s, _) in enumerate(seen)
        ]
        losses = _numbers(history.losses[:20], 4)
        return {"segment": segment.tolist(), "heads": heads, "losses": losses, "curve": curve, "codes": codes}

    yield run


def grid() -> Iterator[Job]:
    """One row a run: when the task was found, the accuracy as it rose, the scores of each head at both ends."""

    def run(init: int, order: int) -> dict:
        _, seen = ind.train(ind.TinyModel(seed=init), seed=order)
        first, last = seen[0], seen[-1]
        return {
            "init": init,
            "order": order,
            "found": ind.found_at([s.accuracy for s in seen]),
            "accuracy": [round(s.accuracy, 3) for s in seen],
            "previous": _numbers(last.previous[0]),
            "induction": _numbers(last.induction[1]),
            "previous at first": _numbers(first.previous[0], 4),
            "best previous": [round(float(s.previous[0].max()), 3) for s in seen],
            "best induction": [round(float(s.induction[1].max()), 3) for s in seen],
        }

    for order, init in itertools.product(range(ORDERS), range(INITS)):
        yield lambda _, init=init, order=order: run(init, order)


def tickets() -> Iterator[Job]:
    """The whole model, then two heads, one a layer: the two that matter most, other pairs, and fresh weights."""

    def whole(init: int) -> dict:
        model = ind.TinyModel(seed=init)
        _, seen = ind.train(model, seed=0)
        effects = ind.one_head_out(model, ind.held_out(**EFFECTS))
        return _run_row("whole", init, init, seen) | {"effects": [_numbers(row) for row in effects]}

    def pair(rows: list[dict], init: int, kind: str, number: int) -> dict:
        effects = next(row["effects"] for row in rows if row["kind"] == "whole" and row["init"] == init)
        best = [row.index(max(row)) for row in effects]
        others = [p for p in itertools.product(range(4), repeat=2) if p[0] != best[0]]
        order = torch.randperm(len(others), generator=torch.Generator().manual_seed(init)).tolist()
        heads = list(others[order[number]]) if kind == "random" else best
        seed = 100 + 10 * init + number if kind == "fresh" else init
        gates = torch.zeros(2, 4)
        gates[0, heads[0]] = gates[1, heads[1]] = 1
        _, seen = ind.train(ind.TinyModel(seed=seed), seed=1, gates=gates)
        return _run_row(kind, init, seed, seen) | {"heads": heads}

    for init in range(SEEDS):
        yield lambda _, init=init: whole(init)
        kinds = [("ticket", 0), *(("random", i) for i in range(RANDOM)), *(("fresh", i) for i in range(FRESH))]
        for kind, number in kinds:
            yield lambda rows, init=init, kind=kind, number=number: pair(rows, init, kind, number)


def variants() -> Iterator[Job]:
    """One row a run of another architecture."""

    def run(name: str, seed: int) -> dict:
        options, steps = VARIANTS[name]
        _, seen = ind.train(ind.TinyModel(seed=seed, **options), seed=seed, steps=steps)
        scores = {"previous": seen[-1].previous.max(), "induction": seen[-1].induction.max()}
        row = {"variant": name, "steps": steps} | _run_row("variant", seed, seed, seen)
        return row | {k: round(float(v), 3) for k, v in scores.items()}

    for name, seed in itertools.product(VARIANTS, range(SEEDS)):
        yield lambda _, name=name, seed=seed: run(name, seed)


PARTS = {"watched": watched, "tickets": tickets, "variants": variants, "grid": grid}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.sweeps.open_questions", description=__doc__)
    parser.add_argument("--again", nargs="*", default=[], choices=PARTS, help="parts to make anew")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    content = sweep(NAME) if (FOLDER / f"{NAME}.json").is_file() else {"made": {}}
    content |= {name: [] for name in options.again}
    spent = content["made"].get("processor seconds", {})
    for name, part in PARTS.items():
        rows = content.setdefault(name, [])
        for job in itertools.islice(part(), len(rows), None):
            began = time.process_time()
            rows.append(job(rows))
            spent[name] = round(spent.get(name, 0) + time.process_time() - began, 1)
            print(name, len(rows), {k: v for k, v in rows[-1].items() if not isinstance(v, list | dict)}, flush=True)
            facts = {"inits": INITS, "orders": ORDERS, "seeds": SEEDS, "processor seconds": spent}
            write(NAME, content | {"made": made(NAME, **facts)})


def _run_row(kind: str, init: int, seed: int, seen: list[ind.Watched]) -> dict:
    accuracies = [s.accuracy for s in seen]
    found = {"found": ind.found_at(accuracies), "accuracy": round(accuracies[-1], 3), "loss": round(seen[-1].loss, 3)}
    return {"kind": kind, "init": init, "seed": seed} | found


def _numbers(values: Tensor, digits: int = 3) -> list[float]:
    return [round(float(value), digits) for value in values]


if __name__ == "__main__":
    main()
