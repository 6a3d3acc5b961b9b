"""The state in which a model gives comparable attention weights, and the way back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock

import torch
from torch import Tensor, nn

from utils.models import quiet

BACKEND = "_attn_implementation_internal"  # where transformers keeps the attention backend in a config
INSTALLED = "_output_capturing_hooks_installed"  # where it notes that its own hooks are in place
ABSENT = object()
ONE_AT_A_TIME = RLock()  # threads may share a model, and they share warnings and verbosity


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Evaluation mode within the scope, then each module's own mode again. Threads wait for each other."""
    with ONE_AT_A_TIME:
        modes = [(module, module.training) for module in model.modules()]
        model.eval()
        try:
            yield
        finally:
            for module, mode in modes:
                module.training = mode


@contextmanager
def extracting(model: nn.Module) -> Iterator[None]:
    """In the scope: evaluation mode, float32, eager attention, no gradient, silence. Afterwards all is as it was.

    Also after an exception, and bit by bit: parameters and buffers get their own memory back, every module its mode,
    every config its backend. Hooks of the caller stay and run; hooks that transformers adds meanwhile are taken out.
    Threads wait for each other.
    Raises TypeError for what is no transformers model.
    """
    if not isinstance(model, nn.Module) or not hasattr(model, "config"):
        hint = ": pass model[0].auto_model and model.tokenizer" if type(model).__name__ == "SentenceTransformer" else ""
        raise TypeError(f"model must be a transformers model, got {type(model).__name__}{hint}")
    with evaluating(model), _changed(model):
        yield


@contextmanager
def _changed(model: nn.Module) -> Iterator[None]:
    modules = list(model.modules())
    backends = [(config, getattr(config, BACKEND)) for config in _configs(modules)]
    tensors = [(tensor, tensor.data) for tensor in _not_float32(model)]
    device = next((tensor.device.type for tensor in model.parameters()), "cpu")
    try:
        with quiet(), _no_gradient(model), torch.autocast(device, enabled=False), own_hooks_only(model):
            if hasattr(model, "set_attn_implementation"):
                model.set_attn_implementation("eager")
            for tensor, data in tensors:
                tensor.data = data.float()
            yield
    finally:
        for tensor, data in tensors:
            tensor.data = data
        for config, backend in backends:
            setattr(config, BACKEND, backend)


@contextmanager
def own_hooks_only(model: nn.Module) -> Iterator[None]:
    """Forward hooks that are added in the scope are gone after it, with transformers' note of having added some."""
    modules = list(model.modules())
    before = [(set(module._forward_hooks), module.__dict__.get(INSTALLED, ABSENT)) for module in modules]
    try:
        yield
    finally:
        for module, (own, installed) in zip(modules, before, strict=True):
            for key in set(module._forward_hooks) - own:
                for hooks in (
                    module._forward_hooks,
                    module._forward_hooks_with_kwargs,
                    module._forward_hooks_always_called,
                ):
                    hooks.pop(key, None)
            if installed is ABSENT:
                module.__dict__.pop(INSTALLED, None)


def _no_gradient(model: nn.Module):
    """Inference mode for a model that was built in it, whose tensors can be computed with nowhere else."""
    built_in_it = any(each.is_inference() for each in [*model.parameters(), *model.buffers()])
    return torch.inference_mode() if built_in_it else torch.no_grad()


def _configs(modules: list[nn.Module]) -> list:
    """Every config in the model once, those inside other configs too."""
    found, todo = {}, [getattr(module, "config", None) for module in modules]
    while todo:
        config = todo.pop()
        if hasattr(config, BACKEND) and id(config) not in found:
            found[id(config)] = config
            todo += [getattr(config, name, None) for name in getattr(config, "sub_configs", {})]
    return list(found.values())


def _not_float32(model: nn.Module) -> list[Tensor]:
    """Parameters and buffers in another floating-point format than float32."""
    tensors = [*model.parameters(), *model.buffers()]
    return [each for each in tensors if each.is_floating_point() and each.dtype != torch.float32]
