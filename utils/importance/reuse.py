"""Keep what the parts of a model gave in one run, and hand it back in later runs, with every text repeated."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager

import torch
from torch import Tensor, nn

from utils.architectures import Attention
from utils.heads.gates import Change
from utils.importance.running import mapped

ABSENT = object()


class Kept:
    """What the parts of a model gave in one run, in the order in which they were done.

    A change of the heads of an attention reaches only what is computed after its output projection starts. So all that
    was done before, in lower layers and in an encoder below a decoder, can be handed back as it was.
    """

    def __init__(self, model: nn.Module, found: list[Attention]):
        self.found, self.parts = found, _parts(model, found)
        self.outputs: list[tuple[nn.Module, object]] = []
        self.done: dict[str, int] = {}  # by attention: how many parts were done when its output projection started

    @contextmanager
    def recording(self) -> Iterator[None]:
        """In the scope, a run of the model is kept: what each part returns before any hook changes it."""
        with ExitStack() as stack:
            for each in self.found:
                stack.callback(each.output.register_forward_pre_hook(self._note(each.name)).remove)
            stack.enter_context(_forwards((part, self._keep(part)) for part in self.parts))
            yield
        called = [id(part) for part, _ in self.outputs]
        if len(set(called)) < len(called):  # a part that runs twice has no one output: nothing is handed back
            self.done = {}

    @contextmanager
    def reusing(self, attention: Attention, texts: int, copies: int) -> Iterator[None]:
        """In the scope, all that was done before ``attention`` adds up its heads is handed back, ``copies`` times."""
        done = self.outputs[: self.done.get(attention.name, 0)]
        with _forwards((part, _hand_back(output, texts, copies)) for part, output in done):
            yield

    def _keep(self, part: nn.Module) -> Callable:
        forward = part.forward

        def keep(*args, **kwargs):
            output = forward(*args, **kwargs)
            self.outputs.append((part, mapped(output, torch.clone)))
            return output

        return keep

    def _note(self, name: str) -> Callable:
        return lambda _module, _args: self.done.setdefault(name, len(self.outputs)) and None


def repeated(value: object, texts: int, copies: int):
    """A copy, with the texts of every tensor that has a row a text one after the other, ``copies`` times."""

    def repeat(tensor: Tensor) -> Tensor:
        return tensor.repeat(copies, *[1] * (tensor.ndim - 1)) if is_by_text(tensor, texts) else tensor.clone()

    return mapped(value, repeat)


def is_by_text(tensor: Tensor, texts: int) -> bool:
    return tensor.ndim > 0 and len(tensor) == texts


def blockwise(copies: int) -> Callable[[Change], Change]:
    """For ``rewired``: gates and ablations see the repeated texts one copy at a time."""
    return lambda change: lambda z: torch.cat([change(block) for block in z.chunk(copies)])


def _parts(model: nn.Module, found: list[Attention]) -> list[nn.Module]:
    """The layers that hold an attention, the attentions, and their projections of queries, keys and values."""
    modules = dict(model.named_modules())
    parts: dict[int, nn.Module] = {}
    for each in found:
        steps = each.name.split(".")
        paths = [".".join(steps[:end]) for end in range(1, len(steps))]
        lists = [path for path in paths if isinstance(modules[path], nn.ModuleList)]
        layer = ".".join(steps[: len(lists[0].split(".")) + 1]) if lists else each.name
        candidates = (modules[layer], each.module, each.query, each.key, each.value)
        parts |= {id(part): part for part in candidates if part is not model}
    return list(parts.values())


def _hand_back(output: object, texts: int, copies: int) -> Callable:
    return lambda *_args, **_kwargs: repeated(output, texts, copies)


@contextmanager
def _forwards(replacements: Iterable[tuple[nn.Module, Callable]]) -> Iterator[None]:
    """In the scope, modules compute another function; hooks run around it as ever."""
    before = []
    try:
        for module, forward in replacements:
            before.append((module, module.__dict__.get("forward", ABSENT)))
            module.forward = forward
        yield
    finally:
        for module, own in reversed(before):
            if own is ABSENT:
                del module.__dict__["forward"]
            else:
                module.forward = own
