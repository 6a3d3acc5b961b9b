"""What chapter 3 needs beyond its cells: offsets of the greatest weight, dependencies on halves, tuned translators."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence

import pandas as pd
import torch
from safetensors.torch import load
from scipy.stats import hypergeom
from torch import Tensor, nn

from utils.attention import AttentionMaps, head_statistics
from utils.attention.inputs import encoder_decoder, inputs_for, longest, start_of_decoder
from utils.attention.reading import Plan
from utils.attention.scope import extracting
from utils.attention.statistics import Reading
from utils.attention.tokens import Encoded, encode
from utils.dependencies import Parse, dependency_scores
from utils.heads import Head
from utils.parses import Parsed
from utils.pruning import order_by
from utils.pruning_explorer import PruningPath, head_masks
from utils.sweeps import FOLDER, sweep

NEIGHBOURS = {"previous": -1, "same": 0, "next": 1}
PLACE = ["relation", "direction"]
WHOSE = [*PLACE, "kind", "layer", "head"]


def neighbour_shares(model: nn.Module, tokenizer, texts: Sequence[str]) -> pd.DataFrame:
    """How often a row's greatest weight lies on the token before, on itself, on the token after: a row a head.

    Columns: kind, layer, head; previous, same, next – the greatest weight among ordinary keys –; previous_all,
    same_all, next_all – among all keys, special tokens too. Rows are ordinary tokens in both. Self-attention only.
    Source of the rule: Voita et al. 2019 (arXiv 1905.09418), section 5.1, which does not say what special tokens do.
    """

    def more(reading: Reading) -> dict[str, tuple[Tensor, Tensor]]:
        ordinary = reading.readable & reading.ordinary[:, None, None]
        rows = reading.reads[:, None]
        place = torch.arange(reading.weights.shape[-2])
        found = {}
        for end, keys in (("", ordinary), ("_all", reading.readable)):
            best = reading.weights.masked_fill(~keys, -1.0).argmax(-1)
            for name, offset in NEIGHBOURS.items():
                hits = (best - place == offset) & rows
                found[name + end] = (hits.sum(-1).double(), rows.sum(-1).expand(hits.shape[:2]))
        return found

    frame = head_statistics(model, tokenizer, list(texts), more=more)
    columns = [name + end for end in ("", "_all") for name in NEIGHBOURS]
    return frame.loc[frame["kind"] != "cross", ["kind", "layer", "head", *columns]].reset_index(drop=True)


def word_maps(model: nn.Module, tokenizer, sentences: Iterable[Parsed], *, size: int = 16) -> list[AttentionMaps]:
    """The encoder's maps between words, without special tokens, of each parsed sentence.

    The same as ``attention_maps(…)["encoder"].without_special().words()``, with ``size`` sentences in one pass of the
    model. The decoder of an encoder–decoder reads its start token only. Raises ValueError for a model without encoder.
    """
    sentences, maps = list(sentences), []
    with extracting(model):
        limit = longest(model, tokenizer)
        texts = [encode(tokenizer, each.text, limit) for each in sentences]
        start = [start_of_decoder(model)] if encoder_decoder(model) else None
        plan = Plan.of(model, inputs_for(model, texts[:1], start))
        if "encoder" not in plan.heads:
            raise ValueError(f"{type(model).__name__} has no encoder: its words read the words before them only")
        wanted = plan.checked({"encoder": range(len(plan.heads["encoder"]))})
        for first in range(0, len(texts), size):
            part = texts[first : first + size]
            layers = plan.read(model, inputs_for(model, part, start and start * len(part)), wanted)["encoder"]
            for row, text in enumerate(part):
                n = len(text)
                weights = torch.stack([layer[row, :, :n, :n] for layer in layers]).float()
                maps.append(_map(weights, text, wanted["encoder"]).without_special().words())
    return maps


def _map(weights: Tensor, text: Encoded, layers: list[int]) -> AttentionMaps:
    """Maps of an encoder (layers, heads, n, n) with the labels of their text."""
    special = torch.tensor(text.special)
    return AttentionMaps(
        weights=weights,
        queries=list(text.labels),
        keys=list(text.labels),
        layers=layers,
        kind="encoder",
        query_words=list(text.words),
        key_words=list(text.words),
        special_queries=special,
        special_keys=special,
        notices=list(text.notices),
        query_word_labels=list(text.word_labels),
        key_word_labels=list(text.word_labels),
    )


def on_halves(
    maps: Sequence[AttentionMaps],
    sentences: Sequence[Parsed],
    *,
    least: int = 30,
    heads: Iterable[tuple[int, int]] | None = None,
) -> pd.DataFrame:
    """Dependencies by the best head, chosen on one half of the sentences and measured on the other: both ways round.

    A row a relation, direction and fold (0: chosen on the first half, 1: on the second). Columns: layer, head; arcs,
    share and baseline (best fixed offset) of the half that did not choose; gain = share − baseline there; gain_chosen:
    the gain on the half that chose, which flatters. least: relations with fewer arcs in a half are left out. heads:
    (layer, head) pairs to choose from, by default all. Raises ValueError for fewer than two sentences.
    """
    tables = _halves(maps, sentences, least)
    if heads is not None:
        wanted = set(heads)
        of_table = [[place in wanted for place in zip(t["layer"], t["head"], strict=True)] for t in tables]
        tables = [table[chosen] for table, chosen in zip(tables, of_table, strict=True)]
        if tables[0].empty:
            raise ValueError("none of the heads is in the maps: give (layer, head) pairs")
    folds = []
    for fold, (chooses, reports) in enumerate((tables, tables[::-1])):
        gains = chooses.dropna(subset="gain")
        best = gains.loc[gains.groupby(PLACE)["gain"].idxmax(), [*WHOSE, "gain"]]
        best = best.rename(columns={"gain": "gain_chosen"}).merge(reports, on=WHOSE)
        folds.append(best.assign(fold=fold))
    columns = [*PLACE, "fold", "layer", "head", "arcs", "share", "baseline", "gain", "gain_chosen"]
    return pd.concat(folds, ignore_index=True)[columns].sort_values([*PLACE, "fold"], ignore_index=True)


def syntactic_heads(
    maps: Sequence[AttentionMaps], sentences: Sequence[Parsed], *, least: int = 30, margin: float = 0.1
) -> pd.DataFrame:
    """Heads that beat the best fixed offset by ``margin`` on *both* halves of the sentences, for one relation at least.

    A row a head, relation and direction: relation, direction, layer, head, gain (the smaller of the two). Punctuation
    does not count. least: relations with fewer arcs in a half are left out.
    """
    first, second = _halves(maps, sentences, least)
    both = first.merge(second, on=WHOSE, suffixes=("", "_again"))
    both["gain"] = both[["gain", "gain_again"]].min(axis=1)
    passes = both[(both["gain"] >= margin) & (both["relation"] != "punct")]
    return passes[[*PLACE, "layer", "head", "gain"]].sort_values([*PLACE, "layer", "head"], ignore_index=True)


def _halves(maps: Sequence[AttentionMaps], sentences: Sequence[Parsed], least: int) -> list[pd.DataFrame]:
    """The table of ``dependency_scores`` of the first half of the sentences, and that of the second."""
    maps, sentences = list(maps), list(sentences)
    if len(maps) != len(sentences) or len(maps) < 2:
        raise ValueError(f"as many maps as sentences are needed, two at least, got {len(maps)} and {len(sentences)}")
    middle = len(maps) // 2
    cuts = (slice(0, middle), slice(middle, None))
    return [dependency_scores(maps[cut], [each.parse for each in sentences[cut]], least=least) for cut in cuts]


def tuned_by_gates(model: nn.Module, penalty: float) -> tuple[nn.Module, Tensor]:
    """A copy of the translator with the encoder layers that were tuned while gates closed, and the gates (6, 8).

    penalty: one of data/sweeps/translator_gates/. The copy needs its gates: ``gated(copy, {"encoder": gates})``,
    or ``prune`` where they are 0. Raises ValueError for a penalty that is not there.
    """
    folder = FOLDER / "translator_gates"
    known = sorted(float(file.stem.removeprefix("penalty-")) for file in folder.glob("penalty-*.safetensors"))
    if penalty not in known:
        raise ValueError(
            f"there are no gates for the penalty {penalty!r}: there are {', '.join(f'{p:g}' for p in known)}"
        )
    tensors = load((folder / f"penalty-{penalty:g}.safetensors").read_bytes())
    gates = tensors.pop("gates")
    del tensors["log_alpha"]
    tuned = copy.deepcopy(model)
    tuned.load_state_dict({name: tensor.float() for name, tensor in tensors.items()}, strict=False)
    return tuned, gates


def survivors(roles: pd.Series, kept: Iterable[tuple[int, int]]) -> pd.DataFrame:
    """How many heads of each role are among the kept, beside chance: a row a role, the most frequent first.

    roles: a label for each (layer, head). Columns: heads, kept, expected (of as many heads drawn at random) and
    chance: the probability that a random draw keeps at least so many (hypergeometric). Raises ValueError for a kept
    head without a role.
    """
    kept = list(dict.fromkeys(tuple(each) for each in kept))
    unknown = [each for each in kept if each not in roles.index]
    if unknown:
        raise ValueError(f"the head {unknown[0]} has no role: roles are indexed by (layer, head)")
    alive, rows = roles.loc[kept], []
    for role, heads in roles.value_counts().items():
        count = int((alive == role).sum())
        chance = float(hypergeom.sf(count - 1, len(roles), heads, len(kept)))
        rows.append((role, heads, count, len(kept) * heads / len(roles), chance))
    return pd.DataFrame(rows, columns=["role", "heads", "kept", "expected", "chance"]).set_index("role")


def best_functions(
    maps: Sequence[AttentionMaps], sentences: Sequence[Parsed], shares: pd.DataFrame, kept: Iterable[tuple[int, int]]
) -> dict[str, float]:
    """What the best of the kept heads does: neighbours, determiner to noun, preposition to object.

    shares: the table of ``neighbour_shares``. The two neighbours are shares of rows; the arcs are gains over the best
    fixed offset, the mean of both folds of ``on_halves``.
    """
    kept = [tuple(each) for each in kept]
    arcs = [[arc for arc in each.parse.arcs if arc.relation in ("det", "pobj")] for each in sentences]
    few = [Parsed(each.text, Parse(each.parse.words, two)) for each, two in zip(sentences, arcs, strict=True)]
    gain = on_halves(maps, few, least=20, heads=kept).groupby(PLACE)["gain"].mean()
    there = shares[shares["kind"] == "encoder"].set_index(["layer", "head"]).loc[kept]
    return {
        "previous token": float(there["previous"].max()),
        "next token": float(there["next"].max()),
        "determiner to noun, gain": float(gain["det", "to governor"]),
        "preposition to object, gain": float(gain["pobj", "to dependent"]),
    }


def translator_orders() -> dict[str, list[Head]]:
    """The translator's encoder heads, the least important first, by the stored scores "absolute" and "signed"."""
    scores = pd.DataFrame(sweep("translator_heads")["importance"])
    return {name: order_by(scores, name, kind="encoder") for name in ("absolute", "signed")}


def translator_paths() -> list[PruningPath]:
    """The stored ways to take out the translator's 48 encoder heads, in BLEU, for ``pruning_explorer``.

    Gates with tuning, importance with the same tuning, importance without, and the mean of random orders without.
    """
    stored, order = sweep("translator_gates"), translator_orders()["absolute"]
    every = [(head.layer, head.head) for head in order]
    gates = [(48, stored["full"]["bleu"], every)]
    gates += [(row["kept"], row["bleu"], row["heads"]) for row in stored["gates"] if row["kept"] < 48]
    kept, bleu, sets = zip(*gates, strict=True)
    paths = [PruningPath("gates, tuned", kept, bleu, head_masks(sets, 8, 6))]

    rows = [row for row in sweep("translator_choices")["choices"] if row["order"] in ("control", "absolute")]
    curves = pd.DataFrame(sweep("translator_heads")["curves"])
    curves = curves[curves["kind"] == "encoder"]
    plain = curves[curves["order"] == "absolute"].groupby("kept")["bleu"].mean()
    for name, value in (
        ("importance, tuned", {row["kept"]: row["after"]["bleu"] for row in rows}),
        ("importance", plain.to_dict()),
    ):
        masks = head_masks([order[len(order) - count :] for count in value], 8, {"encoder": 6})
        paths.append(PruningPath(name, list(value), list(value.values()), masks))
    drawn = curves[curves["order"] == "random"].groupby("kept")["bleu"].agg(["mean", "min", "max"])
    return [
        *paths,
        PruningPath("random", drawn.index, drawn["mean"].round(2), None, drawn["min"], drawn["max"], null=True),
    ]
