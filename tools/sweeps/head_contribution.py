"""What every single head does to a search and to a translation, text by text, and what heads do together.

python -m tools.sweeps.head_contribution   10 to 20 minutes on one core; goes on where an earlier run stopped

Writes data/sweeps/head_contribution.json (tables) and .safetensors (effects, a number a head and a text, half
precision). Lab 2 reads both.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import combinations

import torch
from safetensors.torch import load_file, save_file

from tools.sweeps.record import earlier, made, write
from utils.corpora import translation_pairs
from utils.encoder_decoder import pair_batches
from utils.head_audit import (
    Effects,
    passage_halves,
    search_effects,
    search_losses,
    short_docstrings,
    translation_effects,
    translation_losses,
)
from utils.heads import Head, ablated, heads_of
from utils.importance import importance
from utils.models import DATA, MINILM_SHA256, load, sha256
from utils.search_index import search_batches, search_loss, text_batches
from utils.sweeps import FOLDER

NAME, TENSORS = "head_contribution", FOLDER / "head_contribution.safetensors"
DRAWS = 2  # of random outputs, for resample
JUDGED = 100  # test pairs of the translator
DRAWN, TOP = 8, 5  # pairs of heads drawn of each sort, heads that are tried in all pairs
BATCH = 31  # pairs that compete for the scores


def searched() -> dict[str, list[tuple[str, str]]]:
    pairs = short_docstrings()
    return {"docstrings": pairs, "passages": passage_halves(len(pairs))}


def search_parts(loaded) -> Iterator[tuple[str, Callable[[], Effects]]]:
    """(name, work) of every table of effects on the search."""
    corpora = searched()
    reference = {name: text_batches(loaded.tokenizer, [p for _, p in pairs]) for name, pairs in corpora.items()}

    def part(corpus: str, mode: str, seed: int = 0):
        options = {} if mode == "zero" else {"mode": mode, "reference": reference["passages"], "seed": seed}
        return lambda: search_effects(*loaded, corpora[corpus], **options)

    yield "docstrings/zero", part("docstrings", "zero")
    yield "passages/zero", part("passages", "zero")
    yield "docstrings/mean", part("docstrings", "mean")
    for seed in range(DRAWS):
        yield f"docstrings/resample-{seed}", part("docstrings", "resample", seed)


def stored() -> dict[str, torch.Tensor]:
    return load_file(TENSORS) if TENSORS.is_file() else {}


def keep(name: str, found: Effects) -> None:
    """Add a table of effects to the file of tensors."""
    tensors = stored() | {name: found.change.half()}
    corpus = name.split("/")[0]
    tensors[f"{corpus}/full"] = found.full.half()
    if name.endswith("zero") and found.places is not None:
        tensors |= {f"{corpus}/places": found.places.short(), f"{corpus}/full places": found.full_places.short()}
    save_file(tensors, TENSORS)


def sets(heads: list[Head], effect: torch.Tensor) -> Iterator[tuple[str, list[Head]]]:
    """(sort, heads to take out together): whole layers, all pairs of the heads that matter most, random pairs."""
    generator = random.Random(0)
    every = list(combinations(heads, 2))
    same = [pair for pair in every if (pair[0].kind, pair[0].layer) == (pair[1].kind, pair[1].layer)]
    apart = [pair for pair in every if (pair[0].kind, pair[0].layer) != (pair[1].kind, pair[1].layer)]
    top = [heads[place] for place in sorted(effect.argsort(descending=True)[:TOP].tolist())]
    for kind, layer in dict.fromkeys((head.kind, head.layer) for head in heads):
        yield "layer", [head for head in heads if (head.kind, head.layer) == (kind, layer)]
    yield from (("most useful", list(pair)) for pair in combinations(top, 2))
    for name, pairs in (("same layer", same), ("other layer", apart)):
        yield from ((name, list(pair)) for pair in generator.sample(pairs, DRAWN))


def together(losses: Callable, heads: list[Head], change: torch.Tensor, rows: list[dict]) -> Iterator[list[dict]]:
    """Rows of ``sets`` with the effect of all together and the sum of the single ones, from where ``rows`` ends."""
    full, single = losses([]), dict(zip(heads, change.float().mean(1).tolist(), strict=True))
    for sort, out in list(sets(heads, change.float().mean(1)))[len(rows) :]:
        effect = float((losses(out) - full).mean())
        summed = sum(single[head] for head in out)
        named = [[head.kind, head.layer, head.head] for head in out]
        rows = [*rows, {"sort": sort, "heads": named, "together": round(effect, 5), "summed": round(summed, 5)}]
        yield rows


def scores(minilm) -> dict[str, list[dict]]:
    """Gradient scores of every head on each corpus (those of the translator are in translator_heads.json)."""
    found = {}
    for name, pairs in searched().items():
        frame = importance(minilm.model, search_batches(minilm.tokenizer, pairs, BATCH), search_loss)
        found[name] = frame.round(6).to_dict("records")
    return found


def main() -> None:
    torch.set_num_threads(1)
    minilm, translator = load("minilm"), load("translator")
    weights = sha256(DATA / "translator" / "model.safetensors")
    content = earlier(NAME, MINILM_SHA256)
    if content is None or content["made"]["translator"] != weights:
        TENSORS.unlink(missing_ok=True)
        facts = {"model": MINILM_SHA256, "translator": weights, "draws": DRAWS, "pairs": len(short_docstrings())}
        content = {"made": made(NAME, **facts), "scores": scores(minilm)}
        write(NAME, content)
    test = pair_batches(translator.tokenizer, translation_pairs("test")[:JUDGED])

    def of_translation(out: list[Head]) -> torch.Tensor:
        with ablated(translator.model, out):
            return translation_losses(translator.model, test)

    effects(
        [
            *search_parts(minilm),
            ("translation/zero", lambda: translation_effects(translator.model, test)),
        ]
    )
    pairs = short_docstrings()
    sides = {
        "docstrings": (minilm.model, lambda out: search_losses(*minilm, pairs, out)),
        "translation": (translator.model, of_translation),
    }
    for corpus, (model, losses) in sides.items():
        done = content.setdefault(f"together, {corpus}", [])
        for rows in together(losses, heads_of(model), stored()[f"{corpus}/zero"], done):
            content[f"together, {corpus}"] = rows
            write(NAME, content)


def effects(parts: list[tuple[str, Callable[[], Effects]]]) -> None:
    """Compute and keep the tables that are not there yet."""
    for name, work in parts:
        if name not in stored():
            keep(name, work())
            print(name, flush=True)


if __name__ == "__main__":
    main()
