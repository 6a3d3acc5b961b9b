"""Run a model over batches in evaluation mode and leave it as it was."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from torch import Tensor, nn

Batch = Mapping[str, object]


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Evaluation mode within the scope; afterwards every module is in the mode it was in."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode


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
