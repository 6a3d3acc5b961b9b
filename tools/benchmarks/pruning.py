"""How much faster a model is without some of its heads, beside what its operations promise."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping

import pandas as pd
import torch
from torch import Tensor, nn

from tools.benchmarks.measure import Report, flops, ratios, take_turns
from utils.heads import Head, heads_of
from utils.models import load
from utils.pruning import prune

TOKENS = 512


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
