"""Measure what takes long: ``python -m tools.benchmarks [NAME ...]`` prints a table for each; --out keeps them as JSON.

Times are processor times of one thread, medians over repetitions in which all variants take turns, after one warm-up
round each: other work on the machine then disturbs all of them alike. The exit code is 1 if a bar is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from scipy.stats import spearmanr
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize
from torch.utils.flop_counter import FlopCounterMode, sdpa_flop_count

from utils.corpora import passages
from utils.heads import Head, ablated, heads_of
from utils.importance import ablation_effect, importance
from utils.models import load
from utils.pruning import prune

CPU_KERNEL = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu  # torch's own count does not know it
TOKENS = 512


class Report(NamedTuple):
    """What a benchmark found: a table, how it was measured, and each bar with whether it was kept."""

    table: pd.DataFrame
    notes: str
    bars: dict[str, bool]


def take_turns(runs: Mapping[str, Callable[[], object]], repeats: int, warm_up: int = 1) -> dict[str, list[float]]:
    """Processor seconds of each run, ``repeats`` times, one after the other in every round."""
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for step in range(warm_up + repeats):
        for name, run in runs.items():
            start = time.process_time()
            run()
            if step >= warm_up:
                seconds[name].append(time.process_time() - start)
    return seconds


def ratios(whole: list[float], part: list[float]) -> tuple[float, float, float]:
    """Median, smallest and largest of the ratios whole / part, round by round."""
    each = [a / b for a, b in zip(whole, part, strict=True)]
    return statistics.median(each), min(each), max(each)


@torch.inference_mode()
def flops(model: nn.Module, inputs: Mapping[str, Tensor]) -> int:
    """Floating-point operations of one forward pass: the products of matrices, of sdpa's kernel too."""
    with FlopCounterMode(display=False, custom_mapping={CPU_KERNEL: _kernel}) as counter:
        model(**inputs)
    return counter.get_total_flops()


def _kernel(queries: torch.Size, keys: torch.Size, values: torch.Size, *_, out_shape=None, **__) -> int:
    """The count of sdpa's kernel; the counter passes the shapes of its tensors."""
    return sdpa_flop_count(queries, keys, values)


def pruning_speed(repeats: int) -> Report:
    """MiniLM without 25, 50 and 75 % of the heads of each layer: time saved beside what the FLOP count predicts."""
    model = load("minilm").model
    parameters = sum(tensor.numel() for tensor in model.parameters())
    shares = (0.25, 0.5, 0.75)
    models = {0.0: model} | {share: prune(model, _first_heads(model, share)) for share in shares}
    rows = []
    for backend in ("eager", "sdpa"):
        for each in models.values():
            each.set_attn_implementation(backend)
        for batch in (8, 1):
            ids = torch.randint(1000, 20000, (batch, TOKENS), generator=torch.Generator().manual_seed(0))
            inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
            runs = {str(share): _forward(each, inputs) for share, each in models.items()}
            seconds = take_turns(runs, repeats if batch > 1 else 3 * repeats)
            count = {share: flops(each, inputs) for share, each in models.items()}
            for share, each in models.items():
                speed_up, least, most = ratios(seconds["0.0"], seconds[str(share)])
                predicted = count[0.0] / count[share]
                rows.append(
                    {
                        "backend": backend,
                        "batch": batch,
                        "heads removed": share,
                        "parameters": sum(t.numel() for t in each.parameters()) / parameters,
                        "seconds": statistics.median(seconds[str(share)]),
                        "speed-up": speed_up,
                        "least": least,
                        "most": most,
                        "predicted": predicted,
                        "of prediction": speed_up / predicted,
                    }
                )
    table = pd.DataFrame(rows)
    half = table[(table["backend"] == "eager") & (table["batch"] == 8) & (table["heads removed"] == 0.5)].iloc[0]
    bar = f"half the heads, eager, batch 8: {half['of prediction']:.2f} of the predicted speed-up, at least 0.9"
    notes = (
        f"MiniLM, {TOKENS} tokens; {repeats} repetitions at batch 8, {3 * repeats} at batch 1; parameters relative to "
        "the whole model; least and most: smallest and largest ratio of a round; predicted: ratio of FLOP counts"
    )
    return Report(table, notes, {bar: half["of prediction"] >= 0.9})


def _first_heads(model: nn.Module, share: float) -> list[Head]:
    """The same share of heads in every layer; which ones makes no difference to time."""
    heads = heads_of(model)
    count = 1 + max(head.head for head in heads)
    return [head for head in heads if head.head < share * count]


def _forward(model: nn.Module, inputs: Mapping[str, Tensor]) -> Callable[[], object]:
    @torch.inference_mode()
    def run() -> object:
        return model(**inputs)

    return run


def importance_cost(repeats: int) -> Report:
    """MiniLM's 72 heads: gradient scores beside training passes, exact effects beside ablating one head at a time."""
    model, tokenizer = load("minilm")
    heads, rows = heads_of(model), []
    for texts, tokens in ((4, 16), (8, 32)):
        batch = dict(tokenizer(passages(texts), return_tensors="pt", padding=True, truncation=True, max_length=tokens))

        def train(batch: dict = batch) -> None:
            model.zero_grad()
            _embeddings(model(**batch), batch).sum().backward()

        @torch.no_grad()
        def one_at_a_time(batch: dict = batch) -> None:
            for head in heads:
                with ablated(model, [head]):
                    _embeddings(model(**batch), batch).sum(1)

        def score(outputs, batch: dict) -> Tensor:
            return _embeddings(outputs, batch).sum(1)

        runs = {
            "train": train,
            "scores": lambda batch=batch: importance(model, [batch], score),
            "one": one_at_a_time,
            "effects": lambda batch=batch: ablation_effect(model, [batch], score),
        }
        seconds = take_turns(runs, repeats)
        for what, new, old in (
            ("scores / training pass", "scores", "train"),
            ("effects / one by one", "effects", "one"),
        ):
            ratio, least, most = ratios(seconds[new], seconds[old])
            rows.append(dict(texts=texts, tokens=tokens, what=what, ratio=ratio, least=least, most=most))
    model.zero_grad()
    table = pd.DataFrame(rows)
    worst = table.groupby("what")["ratio"].max()
    scores, effects = worst["scores / training pass"], worst["effects / one by one"]
    bars = {
        f"three gradient scores cost {scores:.2f} forward–backward passes, at most 4": scores <= 4,
        f"effects of 72 heads cost {effects:.2f} of one head at a time, at most 0.6": effects <= 0.6,
    }
    return Report(table, f"{repeats} repetitions; least and most: smallest and largest ratio of a round", bars)


def importance_ranks(_repeats: int, pairs: int = 64, tokens: int = 24) -> Report:
    """How well gradient scores rank MiniLM's heads by their exact effect, finding the second half of a passage."""
    model, tokenizer = load("minilm")
    halves = [text.split(". ") for text in passages()]
    halves = [(each[: len(each) // 2], each[len(each) // 2 :]) for each in halves if len(each) > 1][:pairs]
    batches = []
    for i in range(0, pairs, 16):
        texts = [". ".join(pair[side]) for side in (0, 1) for pair in halves[i : i + 16]]
        batches.append(dict(tokenizer(texts, return_tensors="pt", padding=True, truncation=True, max_length=tokens)))
    moved: list[float] = []

    def contrast(outputs, batch: dict) -> Tensor:
        queries, answers = _embeddings(outputs, batch).chunk(2)
        return cross_entropy(20 * queries @ answers.T, torch.arange(len(queries)))

    def contrast_and_move(outputs, batch: dict) -> Tensor:
        found = _embeddings(outputs, batch)
        if len(moved) % (1 + len(scores)) == 0:  # the full model comes first
            moved_from.append(found)
        moved.append(float(1 - (found * moved_from[-1]).sum(1).mean()))
        return contrast(outputs, batch)

    moved_from: list[Tensor] = []
    scores = importance(model, batches, contrast, represent=_embeddings)
    effect = ablation_effect(model, batches, contrast_and_move)["effect"].to_numpy()
    distance = np.array(moved).reshape(len(batches), -1)[:, 1:].mean(0)
    random, rows = np.random.default_rng(0), []
    for against, truth in (("loss", effect), ("|loss|", np.abs(effect)), ("1 - cosine", distance)):
        null = np.quantile([spearmanr(random.random(len(truth)), truth).statistic for _ in range(500)], (0.025, 0.975))
        for name in ("absolute", "signed", "fisher"):
            values = scores[name].to_numpy()
            draws = random.integers(0, len(truth), (500, len(truth)))
            low, high = np.quantile([spearmanr(values[i], truth[i]).statistic for i in draws], (0.025, 0.975))
            rank = spearmanr(values, truth).statistic
            rows.append(dict(score=name, change=against, spearman=rank, low=low, high=high))
            rows[-1] |= dict(null_low=null[0], null_high=null[1])
    notes = (
        f"{pairs} pairs, 16 a batch, {tokens} tokens; without {(effect < 0).sum()} heads of {len(effect)} the loss "
        "is lower; low and high: 95 % of bootstrap samples of heads; null: 95 % of random scores"
    )
    return Report(pd.DataFrame(rows), notes, {})


def _embeddings(outputs, batch: dict) -> Tensor:
    """MiniLM's sentence embeddings (texts, width): mean over real tokens, length 1."""
    mask = batch["attention_mask"][..., None].float()
    return normalize((outputs.last_hidden_state * mask).sum(1) / mask.sum(1), dim=-1)


BENCHMARKS: dict[str, Callable[[int], Report]] = {
    "pruning": pruning_speed,
    "importance": importance_cost,
    "ranks": importance_ranks,
}


def machine() -> str:
    """What the times were taken on."""
    name = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        name = next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    load_ = f", load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    return f"{name}, {os.cpu_count()} cores, torch {torch.__version__}, {torch.get_num_threads()} thread{load_}"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(BENCHMARKS)}; all by default")
    parser.add_argument("--repeats", type=int, default=5, help="repetitions of each run (5)")
    parser.add_argument("--out", type=Path, help="also write the tables into this JSON file")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"there is no benchmark {unknown[0]!r}: there are {', '.join(BENCHMARKS)}")
    if options.repeats < 1:
        parser.error("--repeats must be at least 1")
    torch.set_num_threads(1)
    print(f"processor time of one thread, medians, one warm-up round. {machine()}")
    reports = {}
    for name in options.names or BENCHMARKS:
        reports[name] = report = BENCHMARKS[name](options.repeats)
        print(f"\n{name}: {report.notes}\n{report.table.to_string(index=False, float_format='{:.3g}'.format)}")
        for bar, kept in report.bars.items():
            print(f"{'kept' if kept else 'MISSED'}: {bar}")
    if options.out:
        tables = {name: report.table.to_dict("records") for name, report in reports.items()}
        bars = {name: report.bars for name, report in reports.items()}
        text = json.dumps({"machine": machine(), "tables": tables, "bars": bars}, indent=1, default=str)
        options.out.write_text(text + "\n", encoding="utf-8")
    return 0 if all(kept for report in reports.values() for kept in report.bars.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
