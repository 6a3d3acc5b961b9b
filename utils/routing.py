"""Information flow through an encoder, measured: change one token, or one hidden state, and see what changes.

Rows are positions that receive (queries), columns are positions that send (keys), as in an attention map.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from scipy.stats import rankdata
from torch import Tensor, nn

from utils.architectures import attentions
from utils.attention import rollout
from utils.attention.scope import extracting
from utils.importance import contribution_norms


class LayerStates(NamedTuple):
    """What one layer's attention reads, weighs, hands over and collects.

    hidden: (texts, tokens, width), its input. weights: (texts, heads, tokens, tokens). values: (texts, tokens, heads,
    d_head), of each key, before mixing. outputs: the same shape, of each query, after mixing. added: (texts, tokens,
    width), what goes to the residual stream, with the bias.
    """

    hidden: Tensor
    weights: Tensor
    values: Tensor
    outputs: Tensor
    added: Tensor


def layer_states(model: nn.Module, batch: dict) -> list[LayerStates]:
    """The states of every attention of an encoder, layer by layer. Raises ValueError for several kinds of attention."""
    found = attentions(model)
    if len({each.kind for each in found}) > 1:
        raise ValueError(f"{type(model).__name__} has several kinds of attention: this is for encoders such as BERT")
    kept: dict[tuple[int, str], Tensor] = {}
    with extracting(model):
        hooks = []
        for i, each in enumerate(found):

            def reads(_module, args, output, i=i, each=each) -> None:
                kept[i, "hidden"], kept[i, "values"] = args[0], each.values(output)

            def adds(_module, args, output, i=i, each=each) -> None:
                kept[i, "outputs"], kept[i, "added"] = each.split(args[0]), output

            hooks += [each.value.register_forward_hook(reads), each.output.register_forward_hook(adds)]
        try:
            weights = model(**batch, output_attentions=True).attentions
        finally:
            for hook in hooks:
                hook.remove()
    names = ("values", "outputs", "added")
    return [LayerStates(kept[i, "hidden"], weights[i], *(kept[i, name] for name in names)) for i in range(len(found))]


@torch.no_grad()
def replacement_effects(model: nn.Module, ids: Tensor, substitutes: Tensor) -> Tensor:
    """What changes where if one token is replaced: (layers + 1, tokens that receive, tokens that are replaced).

    ids: (tokens,) of one text. substitutes: (repeats, tokens), the token to put in place of each; the effect is the
    mean over the repeats. An effect is ‖h′ − h‖ / ‖h‖ of the state at the receiving position after each layer, entry 0
    being the embeddings. Positions do not move. It holds whatever carries the change: attention, skip connections,
    feed-forward blocks, and changed attention weights.
    """
    if ids.ndim != 1 or substitutes.shape[-1:] != ids.shape or substitutes.ndim != 2:
        raise ValueError(
            "ids (tokens,) and substitutes (repeats, tokens) are needed, got the shapes "
            f"{tuple(ids.shape)} and {tuple(substitutes.shape)}"
        )
    n = len(ids)
    changed = ids.repeat(len(substitutes), n, 1)  # (repeats, replaced, tokens)
    at = torch.arange(n)
    changed[:, at, at] = substitutes
    texts = torch.cat([ids[None], changed.flatten(0, 1)])
    states = torch.stack(model(input_ids=texts, output_hidden_states=True).hidden_states)
    plain, others = states[:, 0], states[:, 1:].unflatten(1, (len(substitutes), n))
    effects = (others - plain[:, None, None]).norm(dim=-1) / plain.norm(dim=-1)[:, None, None]
    return effects.mean(1).transpose(1, 2)


def random_replacements(model: nn.Module, ids: Tensor, repeats: int = 2, seed: int = 0) -> Tensor:
    """``replacement_effects`` of several texts (texts, tokens): (texts, layers + 1, receiving, replaced).

    Substitutes are drawn from the tokens of all these texts, without the first and the last of each (special tokens).
    """
    if ids.ndim != 2 or ids.shape[1] < 3:
        raise ValueError(f"texts (texts, at least 3 tokens) are needed, got the shape {tuple(ids.shape)}")
    generator = torch.Generator().manual_seed(seed)
    pool = ids[:, 1:-1].flatten()
    draws = torch.randint(len(pool), (len(ids), repeats, ids.shape[1]), generator=generator)
    return torch.stack([replacement_effects(model, *each) for each in zip(ids, pool[draws], strict=True)])


def predictions(model: nn.Module, ids: Tensor, skips: Mapping[str, float]) -> dict[str, Tensor]:
    """What maps of attention say about who reaches whom: name → (texts, layers, receiving, sending).

    ids: (texts, tokens). "mean of maps": of all layers up to this one, heads averaged; "this layer": its own mean map;
    and a rollout for each name in ``skips``, with that share of the skip connection.
    """
    found = layer_states(model, {"input_ids": ids})
    weights = torch.stack([state.weights for state in found], dim=1)
    mean, steps = weights.mean(2), torch.arange(1, len(found) + 1)[:, None, None]
    named = {"mean of maps": mean.cumsum(1) / steps, "this layer": mean}
    return named | {
        name: torch.stack([rollout(each, residual=share) for each in weights]) for name, share in skips.items()
    }


@torch.no_grad()
def patching_effects(model: nn.Module, ids: Tensor, other: Tensor) -> Tensor:
    """What reaches the last layer from each place: (layers + 1, tokens that receive, tokens that are patched).

    ids: (tokens,); other: (tokens,) of another text of the same length. The state at one position after l layers
    (entry l) is exchanged for the state of the other text there, and the layers above run on. The effect is
    ‖h′ − h‖ / ‖h‖ of the last layer's state at each position. Entry ``layers``: nothing is above, so it is diagonal.
    """
    if ids.ndim != 1 or ids.shape != other.shape:
        raise ValueError(f"two texts of one length (tokens,) are needed, got {tuple(ids.shape)}, {tuple(other.shape)}")
    both = model(input_ids=torch.stack([ids, other]), output_hidden_states=True).hidden_states
    blocks, n = _blocks(model), len(ids)
    effects = []
    for level, state in enumerate(both):
        patched = state[:1].repeat(n, 1, 1)
        at = torch.arange(n)
        patched[at, at] = state[1]
        for block in blocks[level:]:
            patched = block(patched)
            patched = patched[0] if isinstance(patched, tuple) else patched
        last = both[-1][0]
        effects.append(((patched - last).norm(dim=-1) / last.norm(dim=-1)).T)
    return torch.stack(effects)


def others(amounts: Tensor, ordinary: Tensor) -> Tensor:
    """Amounts between different ordinary tokens: (..., n, n) and mask (n,) → (..., k, k − 1), k ordinary tokens.

    Row: the receiving token; the others follow in their order. What a token has of itself is left out, because every
    prediction gets it right: the skip connection sees to that.
    """
    inner = amounts[..., ordinary, :][..., ordinary]
    count = inner.shape[-1]
    return inner[..., ~torch.eye(count, dtype=torch.bool)].unflatten(-1, (count, count - 1))


def one_way(amounts: Tensor, ordinary: Tensor) -> Tensor:
    """Of all amounts between ordinary tokens, the share that goes the stronger way of its pair: (..., n, n) → (...).

    1 if of two tokens at most one reaches the other, as in every tree along which content flows one way. No such graph
    holds more than this share of the amounts. Null model: amounts that are the same both ways give 1/2.
    """
    inner = amounts[..., ordinary, :][..., ordinary]
    to, back = torch.triu_indices(inner.shape[-1], inner.shape[-1], 1)
    there, here = inner[..., to, back], inner[..., back, to]
    return torch.maximum(there, here).sum(-1) / (there + here).sum(-1)


def rank_correlation(one: Tensor, other: Tensor) -> Tensor:
    """Spearman's correlation along the last axis: (..., n) twice → (...). A constant row has none: NaN.

    Equal values share their mean rank. Null model: 0, spread 1/√(n − 1), for an order that knows nothing.
    """
    ranks = [torch.from_numpy(rankdata(each.numpy(), axis=-1)) for each in (one, other)]
    a, b = (each - each.mean(-1, keepdim=True) for each in ranks)
    return ((a * b).sum(-1) / (a.norm(dim=-1) * b.norm(dim=-1))).clamp(-1, 1)  # not past 1 by rounding


def sink_rows(model: nn.Module, tokenizer, texts: list[str]) -> tuple[Tensor, Tensor, Tensor]:
    """What a head does at each ordinary position of some texts: three times (layers, heads, positions).

    The share of its weight on special tokens; their share of the norms of what is handed over, ‖P_ij f(x_j)‖; and the
    norm of what the head adds there in all. Positions of all texts are joined. Source: ``contribution_norms``.
    """
    found = []
    for text in texts:
        (each,) = contribution_norms(model, tokenizer, text).values()
        rows, special = ~each.maps.special_queries, each.maps.special_keys
        weights, norms = each.weights[:, :, rows], each.norms[:, :, rows]
        share = norms[..., special].sum(-1) / norms.sum(-1)
        found.append((weights[..., special].sum(-1), share, each.added[:, :, rows]))
    weight, norm, added = (torch.cat(parts, dim=-1) for parts in zip(*found, strict=True))
    return weight, norm, added


def apart(weights: Tensor) -> Tensor:
    """How differently the heads of a layer look: (..., heads, queries, keys) → (...), from 0 (all alike) to 1.

    The mean over pairs of heads, and over rows, of half the sum of absolute differences: the share of the
    weight that would have to move to make the rows equal. Null model: heads with random weights, all near uniform.
    """
    heads = weights.shape[-3]
    first, second = torch.triu_indices(heads, heads, 1)
    away = weights.unbind(-3)
    pairs = [
        (away[i] - away[j]).abs().sum(-1).mean(-1) / 2 for i, j in zip(first.tolist(), second.tolist(), strict=True)
    ]
    return torch.stack(pairs).mean(0)


def _blocks(model: nn.Module) -> list[nn.Module]:
    encoder = getattr(model, "encoder", None)
    blocks = getattr(encoder, "layer", None)
    if blocks is None:
        raise ValueError(f"{type(model).__name__}: no encoder.layer found; patching is for encoders such as BERT")
    return list(blocks)
