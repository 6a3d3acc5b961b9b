"""Run a model over one batch, and check what it and the caller's functions give back."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from numbers import Real

import torch
from torch import Tensor, nn

from utils.architectures import Attention, mask_of
from utils.heads.running import Batch

CACHES = ("past_key_values", "cache")  # names under which forward functions take keys and values of earlier tokens
FAULTS = (AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError)


def texts_of(batch: Batch, number: int) -> int:
    """The number of texts of a batch. Raises ValueError for a batch that holds none, or the cache of another run."""
    for name in CACHES:
        if batch.get(name) is not None:
            raise ValueError(f"batch {number} holds {name}: leave it out and give whole texts")
    sizes = [len(each) for each in batch.values() if isinstance(each, Tensor) and each.ndim]
    if not sizes or not sizes[0]:
        raise ValueError(f'batch {number} holds no text: pass tokenizer(texts, return_tensors="pt", padding=True)')
    return sizes[0]


def check_masks(model: nn.Module, found: list[Attention], batch: Batch, number: int) -> None:
    """Raises ValueError for a mask of another shape than its ids, and for a text without a real token."""
    for prefix in ("", "decoder_"):
        ids, mask = (batch.get(prefix + name) for name in ("input_ids", "attention_mask"))
        if isinstance(ids, Tensor) and isinstance(mask, Tensor) and mask.ndim <= 2 and mask.shape != ids.shape:
            raise ValueError(
                f"batch {number}: {prefix}attention_mask has the shape {tuple(mask.shape)}, "
                f"but {prefix}input_ids {tuple(ids.shape)}"
            )
    for attention in {each.kind: each for each in found}.values():
        mask = mask_of(attention, model, batch)
        if mask is not None and not mask.any(-1).all():
            text = int((~mask.any(-1)).nonzero()[0])
            raise ValueError(f"text {text} of batch {number} has no real token: its mask is all 0, leave it out")


def run(model: nn.Module, batch: Batch, number: int):
    """The model's outputs, without a cache of keys and values. Raises ValueError for a batch it cannot read."""
    options = {"use_cache": False} if "use_cache" in inspect.signature(model.forward).parameters else {}
    try:
        return model(**(dict(batch) | options))
    except FAULTS as error:
        raise ValueError(
            f"{type(model).__name__} could not read batch {number} ({', '.join(map(str, batch))}): {error}"
        ) from error


def checked_function(function: object, name: str) -> Callable:
    if not callable(function):
        raise TypeError(f"{name} must be a function of (outputs, batch), got {type(function).__name__}")
    return function


def checked_value(value: object, texts: int, name: str, number: int) -> Tensor:
    """A scalar or one finite number a text, as a tensor. Raises TypeError or ValueError."""
    if isinstance(value, Real):
        value = torch.tensor(float(value))
    if not isinstance(value, Tensor):
        raise TypeError(f"the {name} must return a tensor, got {type(value).__name__}")
    if value.shape not in ((), (texts,)):
        raise ValueError(
            f"the {name} must return one number, or one a text ({texts},), "
            f"got the shape {tuple(value.shape)} for batch {number}"
        )
    if not value.isfinite().all():
        raise ValueError(f"the {name} of batch {number} is not finite: {value.tolist()}")
    return value


def mapped(value: object, function: Callable[[Tensor], object]):
    """A nested output of a model with every tensor changed; what is no tensor and no container stays."""
    if isinstance(value, Tensor):
        return function(value)
    if isinstance(value, Mapping):
        return type(value)(**{name: mapped(each, function) for name, each in value.items()})
    if isinstance(value, tuple | list):
        parts = [mapped(each, function) for each in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    return value


def tensors_in(value: object) -> list[Tensor]:
    """Every tensor of a nested output, in order."""
    found: list[Tensor] = []
    mapped(value, found.append)
    return found
