"""Does a map say what an output rests on? Amounts of attention beside what taking a token away really does.

For encoders such as MiniLM, whose output is the mean of the last states, and texts of one length without padding.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import pandas as pd
import torch
from torch import Tensor, nn

from utils.attention import rollout
from utils.low_rank import attention_weights, replaced
from utils.measures import entropy
from utils.nulls import permuted_maps
from utils.routing import layer_states, rank_correlation
from utils.subspaces import PARTS, restricted
from utils.subspaces import WAYS as SUBSPACES

WAYS = ("replace", "hide")


def embeddings(model: nn.Module, ids: Tensor, real: Tensor | None = None) -> Tensor:
    """Mean of the last states over real tokens: ids (texts, n), real (texts, n) boolean → (texts, width)."""
    mask = torch.ones_like(ids, dtype=torch.bool) if real is None else real
    states = model(input_ids=ids, attention_mask=mask.long()).last_hidden_state
    return (states * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)


@torch.no_grad()
def removal_effects(model: nn.Module, ids: Tensor, how: str, mask_id: int | None = None) -> Tensor:
    """1 − cosine of a text's embedding when one token is taken away, for all but the first and last: (texts, n − 2).

    how: "replace" puts ``mask_id`` in its place; "hide" lets nobody read it and leaves it out of the mean, positions
    stay. ids: (texts, n) with a special token at both ends. Two ways, because neither is the truth: both make inputs
    that the model has not seen. Raises ValueError for another way and for "replace" without ``mask_id``.
    """
    if how not in WAYS or (how == "replace" and mask_id is None):
        raise ValueError(f'how must be "hide", or "replace" with mask_id, got {how!r} and mask_id {mask_id!r}')
    _check(ids)
    n = ids.shape[1]
    at = torch.arange(1, n - 1)
    effects = []
    for text in ids:
        changed, real = text.repeat(n - 2, 1), torch.ones(n - 2, n, dtype=torch.bool)
        if how == "replace":
            changed[at - 1, at] = mask_id
        else:
            real[at - 1, at] = False
        whole = embeddings(model, text[None])
        effects.append(1 - torch.cosine_similarity(embeddings(model, changed, real), whole, dim=-1))
    return torch.stack(effects)


def gradient_sizes(model: nn.Module, ids: Tensor, projections: int = 4, seed: int = 0) -> Tensor:
    """How far the direction of a text's embedding moves with each token's input: (texts, n − 2), an estimate.

    Root mean square, over random directions z, of ‖∂(z · e/‖e‖)/∂x_i‖, with x_i the word embedding of token i.
    """
    _check(ids)
    words = model.get_input_embeddings()(ids).detach().requires_grad_()
    with torch.enable_grad():
        states = model(inputs_embeds=words, attention_mask=torch.ones_like(ids)).last_hidden_state
        direction = nn.functional.normalize(states.mean(1), dim=-1)
        z = torch.randn(projections, *direction.shape, generator=torch.Generator().manual_seed(seed))
        total = 0.0
        for each in z.to(direction):
            (slope,) = torch.autograd.grad((direction * each).sum(), words, retain_graph=True)
            total = total + slope.square().sum(-1)
    return (total / projections).sqrt()[:, 1:-1]


@torch.no_grad()
def attention_received(model: nn.Module, ids: Tensor) -> dict[str, Tensor]:
    """Three usual readings of the maps, as amounts a token: name → (texts, n − 2).

    "attention, all layers" and "attention, last layer": mean weight that a token receives, over heads and queries;
    "rollout": the share of the mean output that rollout (skip share ½) leads back to a token.
    """
    _check(ids)
    weights = torch.stack([state.weights for state in layer_states(model, {"input_ids": ids})], dim=1)
    received = weights.mean(dim=(2, 3))  # (texts, layers, n)
    rolled = torch.stack([rollout(each)[-1].mean(0) for each in weights])
    found = {"attention, all layers": received.mean(1), "attention, last layer": received[:, -1], "rollout": rolled}
    return {name: each[:, 1:-1] for name, each in found.items()}


@torch.no_grad()
def without_its_maps(model: nn.Module, ids: Tensor, how: str, seed: int = 0) -> Tensor:
    """Cosine of each text's embedding to itself when no layer uses its own weights: (texts,).

    how: "permuted" deals each row's weights to other keys at random, "uniform" gives all keys the same weight.
    """
    if how not in ("permuted", "uniform"):
        raise ValueError(f'how must be "permuted" or "uniform", got {how!r}')

    def rule(layer: int, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        weights = attention_weights(queries, keys)
        if how == "uniform":
            return torch.full_like(weights, 1 / weights.shape[-1]) @ values
        return permuted_maps(weights, seed=seed + layer) @ values

    whole = model(input_ids=ids).last_hidden_state.mean(1)
    with replaced(model, rule):
        other = model(input_ids=ids).last_hidden_state.mean(1)
    return torch.cosine_similarity(whole, other, dim=-1)


def shuffled(amounts: Tensor, seed: int = 0) -> Tensor:
    """The same amounts, dealt to the tokens of each text at random: the null model. (texts, n) → the same shape."""
    order = torch.rand(amounts.shape, generator=torch.Generator().manual_seed(seed)).argsort(-1)
    return amounts.gather(-1, order)


def _check(ids: Tensor) -> None:
    if not isinstance(ids, Tensor) or ids.ndim != 2 or ids.shape[1] < 4 or ids.is_floating_point():
        shape = tuple(ids.shape) if isinstance(ids, Tensor) else type(ids).__name__
        raise ValueError(f"ids must be whole numbers (texts, n) with n of 4 or more, got {shape}")


def predictions(model: nn.Module, ids: Tensor, counts: Mapping[int, int]) -> dict[str, Tensor]:
    """What might say how much a token matters to the embedding: name → amounts (texts, n − 2).

    Another way of removal (the ceiling), the gradient, three readings of attention, how rare the token is (``counts``
    of a corpus, id → number), and one reading shuffled (the null model).
    """
    found = {"another removal": removal_effects(model, ids, "hide"), "gradient": gradient_sizes(model, ids)}
    found |= attention_received(model, ids)
    found["rarity of the token"] = -torch.tensor([[counts.get(int(i), 0) for i in row] for row in ids[:, 1:-1]])
    return found | {"attention, shuffled": shuffled(found["attention, all layers"])}


def agreement(model: nn.Module, ids: Tensor, mask_id: int, counts: Mapping[int, int]) -> dict[str, Tensor]:
    """Rank correlation of every prediction with the effect of [MASK] in a token's place: name → (texts,)."""
    effect = removal_effects(model, ids, "replace", mask_id)
    return {name: rank_correlation(each, effect) for name, each in predictions(model, ids, counts).items()}


@torch.no_grad()
def mean_entropy(model: nn.Module, ids: Tensor) -> float:
    """Entropy of a row of weights in nats, mean over rows, heads, layers and texts. ids: (texts, n)."""
    weights = torch.stack([state.weights for state in layer_states(model, {"input_ids": ids})])
    return float(entropy(weights.double()).mean())


@torch.no_grad()
def restricted_cosines(model: nn.Module, ids: Tensor, directions: int) -> pd.DataFrame:
    """Mean cosine of the embeddings to the whole model's when every layer keeps few directions of one part.

    A row a part ("query-key", "value-output"), a column a way ("shared", "private", "random"): see
    ``utils.subspaces.restricted``.
    """
    whole, found = embeddings(model, ids), {}
    for part, how in itertools.product(PARTS, SUBSPACES):
        with restricted(model, directions, how, part):
            cosine = torch.cosine_similarity(whole, embeddings(model, ids), dim=-1)
        found[part, how] = float(cosine.mean())
    return pd.Series(found).unstack()[list(SUBSPACES)]
