"""What γ and β of a LayerNorm do to the matrix that reads it: they fold into it, exactly.

LN(x) = γ ∘ x̂ + β, and a linear layer computes W · LN(x) + b = (W diag γ) x̂ + (W β + b). So γ scales the columns of W
and β moves its bias. Whether *all* of a LayerNorm folds depends on who else reads it: in GPT-2 (LayerNorm before each
block) only the block does; in BERT (LayerNorm after each block) the skip connection reads it, too.
"""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn
from torch.nn.functional import layer_norm
from transformers.pytorch_utils import Conv1D


def standardised(norm: nn.LayerNorm, hidden: Tensor) -> Tensor:
    """x̂: rows of ``hidden`` (..., width) brought to mean 0 and variance 1, without γ and β."""
    _check_norm(norm)
    return layer_norm(hidden, norm.normalized_shape, eps=norm.eps)


def folded(norm: nn.LayerNorm, reader: nn.Linear) -> nn.Linear:
    """A new linear layer that computes from x̂ what ``reader`` computes from γ ∘ x̂ + β; both given stay as they are.

    Raises ValueError if the widths differ.
    """
    _check_norm(norm)
    if reader.in_features != norm.normalized_shape[0]:
        raise ValueError(
            f"the layer reads {reader.in_features} numbers, the LayerNorm writes {norm.normalized_shape[0]}"
        )
    new = nn.Linear(reader.in_features, reader.out_features).to(reader.weight.dtype)
    with torch.no_grad():
        new.weight.copy_(reader.weight * norm.weight)
        new.bias.copy_(reader.weight @ norm.bias + (0 if reader.bias is None else reader.bias))
    return new


def fold_gpt2(model: nn.Module) -> nn.Module:
    """A copy of a GPT-2 whose blocks' LayerNorms have γ = 1 and β = 0; it computes the same. The final one stays.

    Raises ValueError for a model without GPT-2's blocks.
    """
    if not hasattr(model, "h") or not all(hasattr(block, "ln_1") for block in model.h):
        raise ValueError(f"a GPT2Model is expected, got {type(model).__name__}")
    new = copy.deepcopy(model)
    for block in new.h:
        _fold_into(block.ln_1, [block.attn.c_attn])
        _fold_into(block.ln_2, [block.mlp.c_fc])
    return new


def fold_bert(model: nn.Module) -> nn.Module:
    """A copy of a BERT whose γ and β (but the last) sit in the next matrices. It does *not* compute the same.

    The skip connections read x̂ where they used to read γ ∘ x̂ + β. Raises ValueError for a model of another kind.
    """
    if not hasattr(model, "encoder") or not hasattr(model, "embeddings"):
        raise ValueError(f"a BertModel is expected, got {type(model).__name__}")
    new = copy.deepcopy(model)
    before = new.embeddings.LayerNorm
    for layer in new.encoder.layer:
        attention = layer.attention.self
        _fold_into(before, [attention.query, attention.key, attention.value])
        _fold_into(layer.attention.output.LayerNorm, [layer.intermediate.dense])
        before = layer.output.LayerNorm
    return new


def _fold_into(norm: nn.LayerNorm, readers: list[nn.Module]) -> None:
    """In place; a Conv1D of GPT-2 holds its matrix transposed: (in, out)."""
    with torch.no_grad():
        for reader in readers:
            matrix = reader.weight.T if isinstance(reader, Conv1D) else reader.weight  # a view: (out, in)
            reader.bias += matrix @ norm.bias
            matrix *= norm.weight
        norm.weight.fill_(1.0)
        norm.bias.zero_()


def _check_norm(norm: nn.LayerNorm) -> None:
    if not isinstance(norm, nn.LayerNorm) or norm.weight is None or norm.bias is None:
        raise ValueError(f"a LayerNorm with γ and β is expected, got {norm!r}")
