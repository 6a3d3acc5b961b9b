"""Run a model over batches, and refuse batches that it cannot read."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from numbers import Integral

from torch import Tensor, nn

from utils.architectures import Attention, mask_of

Batch = Mapping[str, object]
TEXTS = ("input_ids", "inputs_embeds")  # have a row a text; other keys may not
CACHES = ("past_key_values", "cache")  # names under which forward functions take keys and values of earlier tokens
FAULTS = (AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError)


def checked_batches(batches: Iterable[Batch]) -> list[Batch]:
    """The batches as a list. Raises TypeError or ValueError for what is no batch or for none at all."""
    batches = [batches] if isinstance(batches, Mapping) else batches
    if isinstance(batches, str | Tensor) or not isinstance(batches, Iterable):
        raise TypeError(f"batches must be a list of dictionaries of the model's inputs, got {type(batches).__name__}")
    batches = list(batches)
    for batch in batches:
        if not isinstance(batch, Mapping):
            raise TypeError(
                f"a batch must be a dictionary of the model's inputs, got {type(batch).__name__}: "
                'pass tokenizer(texts, return_tensors="pt", padding=True)'
            )
    if not batches:
        raise ValueError("there is no batch: give at least one")
    return batches


def texts_of(batch: Batch, number: int) -> int:
    """The number of texts of a batch. Raises ValueError for a batch that holds none, or the cache of another run."""
    for name in CACHES:
        if batch.get(name) is not None:
            raise ValueError(f"batch {number} holds {name}: leave it out and give whole texts")
    named = [batch[name] for name in TEXTS if batch.get(name) is not None]
    sizes = [len(each) for each in [*named, *batch.values()] if isinstance(each, Tensor) and each.ndim]
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
        mask = mask_of(attention, batch)
        if mask is not None and not mask.any(-1).all():
            text = int((~mask.any(-1)).nonzero()[0])
            raise ValueError(
                f"text {text} of batch {number} has no real token: its mask is all 0 (or its labels -100), leave it out"
            )


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


def checked_seed(seed: object) -> int:
    """A seed that torch takes. Raises TypeError or ValueError."""
    if not isinstance(seed, Integral) or isinstance(seed, bool):
        raise TypeError(f"seed must be a whole number from 0 on, got {seed!r}")
    if not 0 <= seed < 2**63:
        raise ValueError(f"seed must be from 0 to 2⁶³ − 1, got {seed}")
    return int(seed)


def without_inference(batch: Batch) -> Batch:
    """The batch, with copies of tensors that were made in inference mode, which no gradient passes."""
    if not any(_is_inference(each) for each in batch.values()):
        return batch
    return {name: each.clone() if _is_inference(each) else each for name, each in batch.items()}


def _is_inference(value: object) -> bool:
    return isinstance(value, Tensor) and value.is_inference()
