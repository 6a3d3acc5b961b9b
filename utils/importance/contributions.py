"""What each head really adds to each position: attention weights times transformed vectors."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from utils.architectures import Attention, attentions
from utils.attention import AttentionMaps, attention_maps
from utils.attention.extraction import MAX_BYTES
from utils.attention.reading import Layers
from utils.attention.scope import ONE_AT_A_TIME


class Contributions(NamedTuple):
    """Weights and norms of one text, for one kind of attention.

    maps: the attention maps, with weights (layers, heads, queries, keys), labels and special tokens. norms: of what a
    head hands from a key to a query, ‖α_ij f(x_j)‖, of the same shape. added: of what it adds to a query in all,
    ‖Σ_j α_ij f(x_j)‖, (layers, heads, queries). Heads that were removed hold NaN in all three.
    """

    maps: AttentionMaps
    norms: Tensor
    added: Tensor

    @property
    def weights(self) -> Tensor:
        return self.maps.weights

    def to_frame(self) -> pd.DataFrame:
        """A row a weight: layer, head, query and key (positions), query_label and key_label, weight, norm."""
        return self.maps.to_frame().assign(norm=self.norms.flatten().numpy())

    def summary(self) -> pd.DataFrame:
        """A row a head that is left: kind, layer, head, and means over the ordinary queries.

        sink_weight and sink_norm: the share of weight, and of norm, on special tokens, or on the first token if the
        text has none (the first row is left out then, as in ``head_statistics``). added: the mean norm of what the
        head adds to a position. cancelled: the share of the norms that is lost because vectors point different ways,
        1 − ‖Σ_j α_ij f(x_j)‖ / Σ_j ‖α_ij f(x_j)‖: 0 if all point the same way.
        """
        rows, sinks = ~self.maps.special_queries, self.maps.special_keys.clone()
        if not sinks.any():
            sinks[0] = True
            if self.maps.kind != "cross":
                rows = rows & (torch.arange(len(rows)) > 0)
        weights, norms, added = (each[:, :, rows].double() for each in (self.weights, self.norms, self.added))
        total = norms.sum(-1)
        columns = {
            "sink_weight": weights[..., sinks].sum(-1),
            "sink_norm": norms[..., sinks].sum(-1) / total,
            "added": added,
            "cancelled": 1 - added / total,
        }
        n_heads = self.weights.shape[1]
        frame = pd.DataFrame(
            {"kind": self.maps.kind, "layer": np.repeat(self.maps.layers, n_heads)}
            | {"head": list(range(n_heads)) * len(self.maps.layers)}
            | {name: each.mean(-1).flatten().numpy() for name, each in columns.items()}
        )
        return frame[frame["added"].notna()].reset_index(drop=True)


def contribution_norms(
    model: nn.Module,
    tokenizer,
    text: str,
    target: str | None = None,
    *,
    layers: Layers = None,
    max_bytes: int = MAX_BYTES,
) -> dict[str, Contributions]:
    """Beside the attention weights of one text, the norms of what is really handed over, keyed by kind.

    A head gives query i the sum over keys j of α_ij f(x_j), with f(x) = (x W_V + b_V) W_O, W_O the head's part of the
    output projection. A large weight on a key with a small f(x) hands over little. The heads' sums, all together, and
    the output projection's bias are what the attention adds (before a norm, where one follows).
    Source: Kobayashi et al. 2020 (arXiv 2004.10102), section 3.
    text, target, layers, max_bytes and errors as in ``attention_maps``; the norms need as much memory again. Gates of
    scopes around the call act on what lower layers hand up, not on the norms themselves.
    """
    found = attentions(model)
    values: dict[str, Tensor] = {}

    def keep(name: str) -> Callable:
        return lambda _module, _args, output: values.__setitem__(name, output)  # the last pass is the whole text

    with ONE_AT_A_TIME, ExitStack() as stack:
        for each in found:
            stack.callback(each.value.register_forward_hook(keep(each.name)).remove)
        maps = attention_maps(model, tokenizer, text, target, layers=layers, max_bytes=max_bytes)
    chosen = {kind: [each for each in found if each.kind == kind and each.layer in maps[kind].layers] for kind in maps}
    return {kind: _of_kind(maps[kind], chosen[kind], values) for kind in maps}


@torch.no_grad()
def _of_kind(maps: AttentionMaps, found: list[Attention], values: dict[str, Tensor]) -> Contributions:
    norms, added = (torch.full(maps.weights.shape[:size], torch.nan) for size in (4, 3))  # NaN: removed heads
    for place, each in enumerate(found):
        stored = each.values(values[each.name][0]).float().cpu()  # (keys, heads, d_head)
        handed = torch.einsum("khd,hdw->hkw", stored, each.output_blocks().float().cpu())
        weights = maps.weights[place, list(each.heads)]
        norms[place, list(each.heads)] = weights * handed.norm(dim=-1)[:, None]
        added[place, list(each.heads)] = (weights @ handed).norm(dim=-1)
    return Contributions(maps, norms, added)
