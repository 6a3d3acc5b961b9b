"""Check what the caller's functions give back, and walk through what a model gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from numbers import Real

import torch
from torch import Tensor


def checked_value(value: object, texts: int, name: str, number: int) -> Tensor:
    """A scalar or one finite number a text, as a tensor. Raises TypeError or ValueError."""
    if isinstance(value, Real):
        value = torch.tensor(float(value))
    if not isinstance(value, Tensor):
        raise TypeError(f"the {name} must return a tensor, got {type(value).__name__}")
    if value.is_complex():
        raise TypeError(f"the {name} must be a real number, got {value.dtype}")
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
