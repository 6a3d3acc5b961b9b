"""What MiniLM costs with some of its heads removed, and the stored curves of Lab 3 with these costs beside them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import pandas as pd

from utils.heads import Head
from utils.planner import MINILM, flops, parameters
from utils.pruning import order_by
from utils.pruning_paths import PruningPath, head_masks
from utils.sweeps import sweep

LAYERS, HEADS = 6, 12
TOTAL = LAYERS * HEADS
TEXTS = (1, 16)  # batches that were timed
TOKENS = 64  # of each text
NAMES = {"absolute": "absolute", "signed": "signed", "fisher": "Fisher"}
NAMES |= {"fisher, iterative": "Fisher, iterative", "greedy": "greedy"}


def predicted_flops(kept: Sequence[int] | int, texts: int = 1, tokens: int = TOKENS):
    """Operations of a pass with ``kept`` of MiniLM's 72 heads: matrix products, two for each multiply–add.

    Each head costs the same wherever it stands, so only their number counts. Raises ValueError beyond 0 to 72.
    """
    return _linear(kept, lambda one: flops(one, tokens, texts).total)


def predicted_parameters(kept: Sequence[int] | int):
    """Parameters of MiniLM with ``kept`` of its 72 heads."""
    return _linear(kept, lambda one: parameters(one).total)


def _linear(kept, cost):
    """A cost that falls by the same amount with each head; a layer may lose all of its heads."""
    kept = np.asarray(kept)
    if kept.dtype.kind not in "iu" or kept.min() < 0 or kept.max() > TOTAL:
        raise ValueError(f"kept must be whole numbers of heads from 0 to {TOTAL}, got {kept.tolist()!r}")
    full = cost(MINILM)
    of_six = full - cost(MINILM.without_heads(1))  # one head in each layer
    return full - (TOTAL - kept) * of_six // LAYERS


@lru_cache(maxsize=1)
def timed() -> pd.DataFrame:
    """The stored times of a pass (ms of the processor): how, seed, kept, texts, tokens, ms, low, high (quartiles)."""
    return pd.DataFrame(sweep("pruning_latency")["rows"])


def latency(kept: Sequence[int], texts: int) -> np.ndarray:
    """Milliseconds of a pass of ``texts`` texts of 64 tokens after removal: between the measured numbers, on a line."""
    table = timed()
    table = table[(table["how"] == "removed") & (table["texts"] == texts) & (table["tokens"] == TOKENS)]
    if table.empty:
        raise ValueError(f"{texts} texts were not timed: there are {', '.join(map(str, TEXTS))}")
    mean = table.groupby("kept")["ms"].mean()
    return np.interp(np.asarray(kept, dtype=float), mean.index, mean)


def costs(kept: Sequence[int]) -> dict[str, np.ndarray]:
    """Label with unit → what a model with so many heads costs."""
    kept = np.asarray(kept)
    return {
        "parameters (M)": predicted_parameters(kept) / 1e6,
        "weights (MB)": 4 * predicted_parameters(kept) / 1e6,
        "predicted GFLOP, 16 texts": predicted_flops(kept, 16) / 1e9,
        "measured ms, 1 text": latency(kept, 1).round(1),
        "measured ms, 16 texts": latency(kept, 16).round(0),
    }


def orders() -> dict[str, list[Head]]:
    """The stored orders of MiniLM's heads, the first to go in front."""
    stored = sweep("pruning_simulation")
    frame = pd.DataFrame(stored["importance"])
    found = {score: order_by(frame, score) for score in ("absolute", "signed", "fisher")}
    return found | {name: [Head(*place, "encoder") for place in order] for name, order in stored["orders"].items()}


def curves() -> pd.DataFrame:
    """The stored curves: a row for each order, seed and number of heads kept."""
    table = pd.DataFrame(sweep("pruning_simulation")["curves"])
    return table.astype({"seed": "Int64"})


def simulator_paths(metric: str = "recall@1") -> list[PruningPath]:
    """The stored ways to take heads out of MiniLM, for ``pruning_explorer``: quality by ``metric``, costs beside it.

    Orders by score, one-shot and iterative, and greedy, gates with tuning, and the mean and range of random orders.
    """
    table, found = curves(), []
    if metric not in table:
        raise ValueError(f"no metric is called {metric!r}: there are {', '.join(table.columns[3:])}")
    for name, order in orders().items():
        rows = table[table["order"] == name].sort_values("kept", ascending=False)
        masks = head_masks([order[TOTAL - kept :] for kept in rows["kept"]], HEADS, LAYERS)
        found.append(_path(NAMES[name], rows, metric, masks))
    if gates := sweep("pruning_recovery")["gates"]:
        every = [[layer, head] for layer in range(LAYERS) for head in range(HEADS)]
        whole = table[table["kept"] == TOTAL].iloc[:1].assign(heads=[every])
        rows = pd.concat([whole, pd.DataFrame(gates)])
        found.append(_path("gates, tuned", rows, metric, head_masks(rows["heads"], HEADS, LAYERS)))
    drawn = table[table["order"] == "random"].groupby("kept")[metric].agg(["mean", "min", "max"])
    values = drawn["mean"].round(4)
    spread = {"low": drawn["min"], "high": drawn["max"]}
    return [*found, PruningPath("random", drawn.index, values, None, **spread, null=True, more=costs(drawn.index))]


def translator_paths() -> list[PruningPath]:
    """The stored ways to take heads of all three types out of the translator, in BLEU, for ``pruning_explorer``.

    Orders by score over all 96 heads, encoder gates with tuning (judged on the whole test set), random orders.
    """
    stored, types = sweep("translator_heads"), {"encoder": 6, "decoder": 3, "cross": 3}
    table = pd.DataFrame(stored["curves"])
    table, scores, found = table[table["kind"] == "all"], pd.DataFrame(stored["importance"]), []
    for name in ("absolute", "signed"):
        rows, order = table[table["order"] == name], order_by(scores, name)
        masks = head_masks([order[len(order) - kept :] for kept in rows["kept"]], 8, types)
        found.append(PruningPath(name, list(rows["kept"]), rows["bleu"], masks))
    gates = [row for row in sweep("translator_gates")["gates"] if row["kept"] < 48]
    others = [head for head in order_by(scores, "absolute") if head.kind != "encoder"]
    sets = [[Head(*place, "encoder") for place in row["heads"]] + others for row in gates]
    kept, bleu = [row["kept"] + len(others) for row in gates], [row["bleu"] for row in gates]
    found.append(PruningPath("encoder gates, tuned", kept, bleu, head_masks(sets, 8, types)))
    drawn = table[table["order"] == "random"].groupby("kept")["bleu"].agg(["mean", "min", "max"])
    return [
        *found,
        PruningPath("random", drawn.index, drawn["mean"].round(2), None, drawn["min"], drawn["max"], null=True),
    ]


def _path(name: str, rows: pd.DataFrame, metric: str, masks: np.ndarray) -> PruningPath:
    kept = rows["kept"].to_numpy()
    more = costs(kept) | {
        "recall@10": rows["recall@10"].to_numpy(),
        "recall@1 with the old index": rows["mixed recall@1"].to_numpy(),
    }
    return PruningPath(name, kept, rows[metric].to_numpy(), masks, more=more)


def plans() -> pd.DataFrame:
    """Every stored way to prune MiniLM that needs no luck, as a plan: a row each, no random order among them.

    Columns: plan, kept, parameters (millions), MB (weights in float32), ms (16 texts of 64 tokens), ms of one text,
    rebuilt and old index (recall@1), change and old change (their 95 % intervals).
    """
    after = sweep("pruning_recovery")
    table = curves()
    table = table[(table["order"] != "random") & ~table["kept"].isin([0, TOTAL])]
    table = table.assign(
        plan=[f"{NAMES[order]}, {kept}" for order, kept in zip(table["order"], table["kept"], strict=True)]
    )
    tuned = pd.DataFrame(after["tuned"])
    tuned = tuned[~tuned["order"].isin(["random", "none left"])]
    tuned["plan"] = [
        f"{NAMES[order]}, {kept}, tuned" for order, kept in zip(tuned["order"], tuned["kept"], strict=True)
    ]
    gates = pd.DataFrame([row | {"plan": f"gates, {row['kept']}, tuned"} for row in after["gates"]])
    ends = curves().drop_duplicates("kept")
    ends = ends[ends["kept"].isin([0, TOTAL])].assign(plan=lambda rows: [f"all {TOTAL}", "none, 0"])
    rows = pd.concat([ends, table, tuned, gates], ignore_index=True)
    kept = rows["kept"].to_numpy()
    found = {
        "plan": rows["plan"],
        "kept": kept,
        "parameters": predicted_parameters(kept) / 1e6,
        "MB": 4 * predicted_parameters(kept) / 1e6,
        "ms": latency(kept, 16),
        "ms of one text": latency(kept, 1),
        "rebuilt": rows["recall@1"],
        "old index": rows["mixed recall@1"],
        "change": _ranges(rows["change"]),
        "old change": _ranges(rows["mixed change"]),
    }
    return pd.DataFrame(found)


def _ranges(intervals) -> list[str]:
    """Intervals as text, to two digits; no minus before 0.00."""
    return [f"{round(low, 2) + 0.0:.2f} to {round(high, 2) + 0.0:.2f}" for low, high in intervals]
