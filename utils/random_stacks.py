"""Encoders without training for the study of depth: weights drawn at a gain, or chosen so that LayerNorm keeps rank.

They are BERT's own layers in float64, to be fed with states (texts, n, width): ``utils.rank_collapse.states``.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from transformers import BertConfig, BertModel

from utils.models import quiet


def random_stack(
    layers: int,
    *,
    width: int = 64,
    heads: int = 4,
    gain: float = 1.0,
    scores: float = 1.0,
    branch: float = 1.0,
    seed: int = 0,
) -> BertModel:
    """An encoder with weights N(0, gain²/inputs) and no biases.

    gain: 1 keeps the size of a row on average; BERT's own start, N(0, 0.02²), has gain 0.02 · √width in the attention.
    scores: factor of the scores before the softmax. branch: factor of what attention and MLP add to the stream.
    The global random state is left as it was. Raises ValueError for sizes that are not whole numbers from 1 on.
    """
    model = _empty(layers, width, heads)
    generator = torch.Generator().manual_seed(seed)
    for layer in model.encoder.layer:
        for module in layer.modules():
            if isinstance(module, nn.Linear):
                drawn = torch.randn(module.weight.shape, generator=generator, dtype=torch.float64)
                module.weight.data = gain / module.in_features**0.5 * drawn
        layer.attention.self.query.weight.data *= scores
        layer.attention.output.dense.weight.data *= branch
        layer.output.dense.weight.data *= branch
    return model


def shared_stack(layers: int, value: Tensor, *, scores: float = 1.0) -> BertModel:
    """Equal layers of one head: W_Q = scores · 1, W_K = W_O = 1, W_V = ``value``, no biases.

    value: (width, width), acting on rows from the right. Rows of LayerNorm have length √width, so the score of a row
    with itself is scores · √width. The MLPs are an unseeded draw: leave them out (``states(…, mlp=False)``).
    """
    if value.ndim != 2 or value.shape[0] != value.shape[1]:
        raise ValueError(f"value must be a square matrix (width, width), got the shape {tuple(value.shape)}")
    width = len(value)
    model, one = _empty(layers, width, 1), torch.eye(width, dtype=torch.float64)
    for layer in model.encoder.layer:
        own = layer.attention.self
        own.query.weight.data, own.key.weight.data = scores * one, one.clone()
        own.value.weight.data, layer.attention.output.dense.weight.data = value.double().T.clone(), one.clone()
    return model


def simplex_states(n: int, groups: int, width: int, *, seed: int = 0) -> Tensor:
    """States (1, n, width) of tokens in equal groups, one at each corner of a regular simplex: rank groups − 1.

    The mean row is 0, and every row has mean 0 and variance 1, as after a LayerNorm. Raises ValueError where n is no
    multiple of groups, or width leaves no room.
    """
    if not 2 <= groups < width or n % groups:
        raise ValueError(
            f"{n} tokens in {groups} groups of one size in width {width} do not go: "
            "take 2 groups or more, a divisor of the tokens, below the width"
        )
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randn(width, groups + 1, generator=generator, dtype=torch.float64)
    drawn[:, 0] = 1.0  # the others become orthogonal to it: rows with mean 0
    corners = torch.linalg.qr(drawn).Q[:, 1:].T
    corners = corners - corners.mean(0)
    corners = width**0.5 * corners / corners.norm(dim=-1, keepdim=True)
    return corners[torch.arange(n) % groups][None]


def _empty(layers: int, width: int, heads: int) -> BertModel:
    for value, name in ((layers, "layers"), (width, "width"), (heads, "heads")):
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ValueError(f"{name} must be a whole number from 1 on, got {value!r}")
    if width % heads:
        raise ValueError(f"width {width} does not split into {heads} heads: choose a divisor of it")
    config = BertConfig(
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=4 * width,
        vocab_size=2,
        max_position_embeddings=2,
    )
    with torch.random.fork_rng(devices=[]), quiet():
        model = BertModel(config, add_pooling_layer=False)
    for module in model.modules():
        if isinstance(module, nn.Linear):
            module.bias.data.zero_()
    return model.double().eval().requires_grad_(False)
