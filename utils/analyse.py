"""The assessment "Analyse": a model that the reader does not know, its notes, and what can be measured of its heads.

Nothing here says what a head is for. Losses, maps and products of weights are measured on the model as it is stored.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Mapping
from functools import cache

import torch
from torch import Tensor, nn

from utils.architectures import attentions
from utils.attention.scope import evaluating, extracting
from utils.heads import Head, ablated
from utils.models import DATA, Loaded, load
from utils.subspaces import PARTS

FOLDER = DATA / "unknown"
SPLITS = ("read", "judge")
FLOOR = 0.05  # nats a token that a recommendation may cost
SAME_MAP, SAME_OUTPUT = 0.05, 0.9  # what duplicates are: greatest distance of maps, least cosine of products
SHARE = 0.9  # of rows at one offset, of weight on the first token, of the greatest entropy


def unknown() -> Loaded:
    """The unknown model and its tokenizer."""
    return load(FOLDER)


@cache
def notes(split: str = "read") -> tuple[str, ...]:
    """96 notes: those to "read", which an analysis may use, or those to "judge" it by."""
    if split not in SPLITS:
        raise ValueError(f"split must be one of {', '.join(SPLITS)}, got {split!r}")
    lines = [json.loads(line) for line in (FOLDER / "notes.jsonl").read_text(encoding="utf-8").splitlines()]
    return tuple(line["text"] for line in lines if line["split"] == split)


def batch_of(tokenizer, texts: Iterable[str]) -> dict[str, Tensor]:
    """{"input_ids": (texts, tokens)}. Raises ValueError for texts that are not equally long."""
    ids = tokenizer(list(texts))["input_ids"]
    if len({len(each) for each in ids}) != 1:
        raise ValueError(f"texts must have equally many tokens, got {sorted({len(each) for each in ids})}")
    return {"input_ids": torch.tensor(ids)}


def token_losses(outputs, batch: Mapping[str, Tensor]) -> Tensor:
    """Cross-entropy of each next token in nats: (texts, tokens − 1)."""
    chosen = outputs.logits[:, :-1].log_softmax(-1).gather(-1, batch["input_ids"][:, 1:, None])
    return -chosen[..., 0]


def text_losses(outputs, batch: Mapping[str, Tensor]) -> Tensor:
    """Mean loss of each text in nats a token, (texts,): the ``metric`` of ``ablation_effect``."""
    return token_losses(outputs, batch).mean(-1)


@torch.no_grad()
def loss(model: nn.Module, batch: Mapping[str, Tensor], without: Iterable[Head] = ()) -> float:
    """Nats a token, with some heads switched off."""
    with evaluating(model), ablated(model, list(without)):
        return float(text_losses(model(**batch), batch).double().mean())


def maps_of(model: nn.Module, batch: Mapping[str, Tensor]) -> Tensor:
    """Attention weights (layers, heads, texts, n, n) of a batch without padding."""
    with extracting(model):
        return torch.stack(model(**batch, output_attentions=True).attentions).transpose(1, 2).detach()


def map_distance(first: Tensor, second: Tensor) -> float:
    """Mean total variation of rows, ½ Σ|a − b|, in [0, 1]: (..., n, n) twice. 0: the same maps."""
    if first.shape != second.shape:
        raise ValueError(f"maps must have one shape, got {tuple(first.shape)} and {tuple(second.shape)}")
    return float((first.double() - second.double()).abs().sum(-1).mean() / 2)


def factors(model: nn.Module, part: str) -> list[tuple[Tensor, Tensor]]:
    """A and B of each layer, (heads, width, d_head): the product of a head is A Bᵀ, W_Q W_Kᵀ or W_V W_O.

    The same as ``subspaces.factors``, for a GPT-2, whose queries, keys and values lie in one matrix.
    """
    if part not in PARTS:
        raise ValueError(f"part must be one of {', '.join(PARTS)}, got {part!r}")
    return [_factors(each, part) for each in attentions(model)]


def _factors(attention, part: str) -> tuple[Tensor, Tensor]:
    shape = (3, attention.all_heads, attention.size)
    query, key, value = attention.query.weight.detach().unflatten(-1, shape).permute(1, 2, 0, 3)
    return (query, key) if part == "query-key" else (value, attention.output_blocks().detach().mT)


def singular_values(model: nn.Module, part: str) -> Tensor:
    """Singular values of W_Q W_Kᵀ or W_V W_O, falling: (layers, heads, d_head) in float64."""
    found = []
    for a, b in factors(model, part):
        found.append(torch.linalg.svdvals(torch.linalg.qr(a.double())[1] @ torch.linalg.qr(b.double())[1].mT))
    return torch.stack(found)


def output_cosine(model: nn.Module, first: Head, second: Head) -> float:
    """Cosine of two heads' W_V W_O, taken as vectors, in [−1, 1]. It does not depend on the basis of a head."""
    (a, b), (c, d) = (_product(model, each) for each in (first, second))
    size = [(x.mT @ x @ y.mT @ y).trace().sqrt() for x, y in ((a, b), (c, d))]
    return float((c.mT @ a @ b.mT @ d).trace() / (size[0] * size[1]))


def _product(model: nn.Module, head: Head) -> tuple[Tensor, Tensor]:
    a, b = factors(model, "value-output")[head[0]]
    return a[head[1]].double(), b[head[1]].double()


@torch.no_grad()
def with_ranks(model: nn.Module, ranks: Mapping[Head, int]) -> nn.Module:
    """A copy in which W_V W_O of each head named is replaced by the nearest product of the rank given.

    The bias of values stays. Raises ValueError for a rank that is no whole number from 0 to d_head.
    """
    changed = copy.deepcopy(model)
    found = {each.layer: each for each in attentions(changed)}
    for head, rank in ranks.items():
        each = found[head[0]]
        if isinstance(rank, bool) or not hasattr(rank, "__index__") or not 0 <= rank <= each.size:
            raise ValueError(f"the rank of {tuple(head[:2])} is {rank!r}: give a whole number from 0 to {each.size}")
        a, b = _product(changed, head)
        left, values, right = torch.linalg.svd(a @ b.mT, full_matrices=False)
        values[rank:] = 0
        at = slice(each.size * head[1], each.size * (head[1] + 1))
        each.value.weight[:, 2 * len(a) :][:, at] = (left * values)[:, : each.size].float()
        each.output.weight[at] = right[: each.size].float()
    return changed


def name(each: Head) -> str:
    """A head as the page calls it: "L1H4" is head 4 of layer 1."""
    return f"L{each[0]}H{each[1]}"
