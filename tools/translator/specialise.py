"""Do the heads specialise, and which attention type matters most? Voita et al. 2019 and Michel et al. 2019 in small."""

from __future__ import annotations

import torch
from transformers import PreTrainedTokenizerBase

from tools.translator.evaluate import bleu, nll
from tools.translator.extract import Pair
from utils.heads import ablated, heads_of
from utils.models import untrained
from utils.translator import Translator, translate

OFFSETS = (-1, 0, 1)


@torch.inference_mode()
def offset_shares(model: Translator, ids: list[list[int]]) -> dict[int, list[list[float]]]:
    """For each offset the share of positions at which a head's arg-max stands there: (layers, heads).

    ids: sentences with their ``</s>``, which is neither counted as a query nor as a key.
    """
    hits = {offset: torch.zeros(model.config.encoder_layers, model.config.heads) for offset in OFFSETS}
    positions = 0
    for row in ids:
        maps = model.encoder(torch.tensor([row]), output_attentions=True).attentions
        at = torch.cat(maps)[..., :-1, :-1].argmax(dim=-1)  # (layers, heads, queries)
        distance = at - torch.arange(at.shape[-1])
        positions += at.shape[-1]
        for offset in OFFSETS:
            hits[offset] += (distance == offset).sum(dim=-1)
    return {
        offset: [[round(x, 4) for x in row] for row in (count / positions).tolist()] for offset, count in hits.items()
    }


def specialisation(
    model: Translator, tokenizer: PreTrainedTokenizerBase, pairs: list[Pair], target: str, sentences: int = 300
) -> dict:
    """Positional heads against random weights, and the cost of taking out all heads of one attention type."""
    pairs = pairs[:sentences]
    sources, references = [pair.source for pair in pairs], [pair.target for pair in pairs]
    ids = tokenizer(sources)["input_ids"]
    shares, chance = offset_shares(model, ids), offset_shares(untrained(model), ids)
    best = [max(shares[-1][i][j], shares[1][i][j]) for i in range(len(shares[0])) for j in range(len(shares[0][0]))]
    best_null = [
        max(chance[-1][i][j], chance[1][i][j]) for i in range(len(chance[0])) for j in range(len(chance[0][0]))
    ]
    removed = {}
    for kind in ("nothing", "encoder", "decoder", "cross"):
        with ablated(model, [head for head in heads_of(model) if head.kind == kind]):
            removed[kind] = {
                "nll": round(nll(model, ids, tokenizer(references)["input_ids"]), 3),
                "bleu": round(bleu(translate(model, tokenizer, sources), references, target), 2),
            }
    return {
        "sentences": len(pairs),
        "share of arg-max at offset": {str(offset): table for offset, table in shares.items()},
        "heads at -1 or +1 in at least": {
            f"{bar:.0%}": {"trained": sum(x >= bar for x in best), "random weights": sum(x >= bar for x in best_null)}
            for bar in (0.5, 0.7, 0.8, 0.9)
        },
        "largest share": {"trained": max(best), "random weights": max(best_null)},
        "without all heads of": removed,
    }
