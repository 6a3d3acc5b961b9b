"""Attention with fewer numbers in a model's place: truncated maps, and Linformer's projections of the length axis.

Shapes: queries, keys, values (..., n, d_head), weights (..., n, n), projections E and F (k, n), which act on
the tokens: E @ keys is (k, d_head). Source: Linformer, Wang et al. 2020 (arXiv 2006.04768).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor
from transformers import AttentionInterface, PreTrainedModel

from utils.attention.scope import BACKEND
from utils.corpora import passages

NAME = "low-rank-rule"
Rule = Callable[[int, Tensor, Tensor, Tensor], Tensor]  # layer, queries, keys, values → outputs (..., n, d_head)


def attention_weights(queries: Tensor, keys: Tensor) -> Tensor:
    """softmax(Q Kᵀ / √d_head): (..., n, d_head), (..., m, d_head) → (..., n, m)."""
    return (queries @ keys.mT / queries.shape[-1] ** 0.5).softmax(-1)


def truncated(weights: Tensor, k: int) -> Tensor:
    """The closest matrix of rank k, in the Frobenius norm: (..., n, n) → the same shape; its rows need not sum to 1.

    It keeps the k largest singular values (Eckart and Young). All of ``weights`` must be there first: n² numbers.
    """
    _rank(k, min(weights.shape[-2:]))
    left, sigma, right = torch.linalg.svd(weights, full_matrices=False)
    return (left[..., :k] * sigma[..., None, :k]) @ right[..., :k, :]


def top_keys(weights: Tensor, k: int) -> Tensor:
    """The k greatest weights of each row, brought to a sum of 1; the others become 0: (..., n, n) → the same shape."""
    _rank(k, weights.shape[-1])
    kept = weights.topk(k, dim=-1)
    sparse = torch.zeros_like(weights).scatter(-1, kept.indices, kept.values)
    return sparse / sparse.sum(-1, keepdim=True)


def projected(queries: Tensor, keys: Tensor, values: Tensor, e: Tensor, f: Tensor) -> Tensor:
    """Linformer's attention, softmax(Q (E K)ᵀ / √d_head) F V: (..., n, d_head); its map is n × k.

    e, f: (k, n). Source: Wang et al. 2020, the definition of linear attention.
    Raises ValueError where e or f does not fit the length of keys: they are made for one length.
    """
    for name, matrix in (("e", e), ("f", f)):
        if matrix.shape[-1] != keys.shape[-2]:
            raise ValueError(
                f"{name} of shape {tuple(matrix.shape)} reads {matrix.shape[-1]} tokens, keys have {keys.shape[-2]}: "
                "a projection is made for one length"
            )
    return attention_weights(queries, e @ keys) @ (f @ values)


def gaussian_projection(k: int, n: int, *, seed: int = 0) -> Tensor:
    """R (k, n) with independent entries N(0, 1/k), so that the mean of Rᵀ R is the identity. float32."""
    _rank(k, n)
    return torch.randn(k, n, generator=torch.Generator().manual_seed(seed)) / k**0.5


def mean_pooling(k: int, n: int) -> Tensor:
    """E (k, n) whose row i is the mean of the i-th of k blocks of neighbouring tokens, as equal as can be."""
    _rank(k, n)
    block = torch.arange(n) * k // n
    members = (block == torch.arange(k)[:, None]).float()
    return members / members.sum(-1, keepdim=True)


def token_windows(tokenizer, n: int, count: int | None = None, start: int = 0) -> Tensor:
    """Token ids (count, n) of texts of one length: the book's passages one after the other, cut into windows.

    Each window begins with [CLS], ends with [SEP] and holds n − 2 tokens between; windows do not overlap. The passages
    come from different topics, so that a window holds several. Raises ValueError when there are fewer windows.
    """
    text = " ".join(passages())
    (tokens,) = tokenizer(text, add_special_tokens=False, return_tensors="pt", verbose=False)["input_ids"]
    body = tokens[: len(tokens) // (n - 2) * (n - 2)].view(-1, n - 2)
    chosen = body[start:] if count is None else body[start : start + count]
    if count is not None and len(chosen) < count:
        raise ValueError(f"windows {start} to {start + count - 1} of {n} tokens were asked for, there are {len(body)}")
    first, last = (torch.full((len(chosen), 1), token) for token in (tokenizer.cls_token_id, tokenizer.sep_token_id))
    return torch.cat([first, chosen, last], dim=1)


@contextmanager
def replaced(model: PreTrainedModel, rule: Rule) -> Iterator[PreTrainedModel]:
    """In the scope every attention of the model computes ``rule(layer, queries, keys, values)``; then all is as before.

    queries, keys, values: (batch, heads, n, d_head); the rule returns the outputs of that shape. Texts without padding
    and models that read in both directions only. Raises ValueError for a batch with a mask.
    """

    def unpadded(_module, arguments, keywords):  # transformers gives a mask only to the backends it knows
        mask = keywords.get("attention_mask", arguments[1] if len(arguments) > 1 else None)
        if mask is not None and not bool(torch.as_tensor(mask).all()):
            raise ValueError("a rule replaces attention without a mask: give texts of one length, without padding")

    def attend(module, queries, keys, values, *_, **__):
        return rule(module.layer_idx, queries, keys, values).transpose(1, 2), None

    before = getattr(model.config, BACKEND)
    AttentionInterface.register(NAME, attend)
    hook = model.register_forward_pre_hook(unpadded, with_kwargs=True)
    try:
        model.set_attn_implementation(NAME)
        yield model
    finally:
        hook.remove()
        setattr(model.config, BACKEND, before)


@torch.no_grad()
def heads_of_text(model: PreTrainedModel, ids: Tensor) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Queries, keys and values of each layer for token ids (batch, n): three tensors (batch, heads, n, d_head)."""
    found: list[tuple[Tensor, Tensor, Tensor]] = []

    def keep(layer: int, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        found.append((queries, keys, values))
        return torch.nn.functional.scaled_dot_product_attention(queries, keys, values)

    with replaced(model, keep):
        model(input_ids=ids)
    return found


def fit_projection(
    heads: tuple[Tensor, Tensor, Tensor],
    e: Tensor,
    f: Tensor,
    *,
    steps: int,
    batch: int = 8,
    rate: float = 0.01,
    seed: int = 0,
) -> tuple[Tensor, Tensor]:
    """Train E and F of one layer so that ``projected`` gives what its full attention gives. Returns the new (e, f).

    heads: queries, keys, values of one layer for training texts, (texts, heads, n, d_head). e, f: the start, (k, n).
    Loss: squared difference of the outputs over their squared size, on ``batch`` texts a step drawn with ``seed``;
    Adam with ``rate`` falling to 0 along a cosine. One pair for all heads of the layer.
    """
    queries, keys, values = (part.detach() for part in heads)
    wanted = torch.nn.functional.scaled_dot_product_attention(queries, keys, values)
    e, f = e.clone().requires_grad_(), f.clone().requires_grad_()
    optimiser = torch.optim.Adam([e, f], lr=rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    generator = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        chosen = torch.randperm(len(queries), generator=generator)[:batch]
        found = projected(queries[chosen], keys[chosen], values[chosen], e, f)
        loss = (found - wanted[chosen]).square().sum() / wanted[chosen].square().sum()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
    return e.detach(), f.detach()


def _rank(k: int, n: int) -> None:
    if not 1 <= k <= n:
        raise ValueError(f"k must be from 1 to {n}, the length of the text, got {k}")
