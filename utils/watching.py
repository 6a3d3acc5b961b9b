"""What torch returns to a piece of code: to see whether an n × n matrix or a loop is in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.overrides import TorchFunctionMode


class Results(TorchFunctionMode):
    """A context that notes the shape of each tensor which a call of torch returns inside it.

    ``shapes``: one a tensor, in order; views and tensors in a tuple count, what a call makes and drops inside does not.
    """

    def __init__(self):
        super().__init__()
        self.shapes: list[tuple[int, ...]] = []

    def __torch_function__(self, function: Callable, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        result = function(*args, **(kwargs or {}))
        several = result if isinstance(result, tuple | list) else [result]
        self.shapes += [tuple(each.shape) for each in several if isinstance(each, Tensor)]
        return result
