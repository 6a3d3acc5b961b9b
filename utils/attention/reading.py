"""One forward pass that gives attention weights: what a model has, what it costs, and the weights, checked."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from numbers import Integral

import torch
from torch import Tensor, nn

from utils.attention.inputs import Inputs
from utils.attention.pruned import heads_left, in_original_numbers
from utils.attention.scope import INSTALLED, own_hooks_only

Attentions = dict[str, list[Tensor]]
Layers = Iterable[int] | Mapping[str, Iterable[int]] | None

PROBE = 4  # tokens from each end of a text that are read first, to learn the layers and heads of a model
OUTPUTS = {"encoder_attentions": "encoder", "decoder_attentions": "decoder", "cross_attentions": "cross"}
FIX = 'load the model with attn_implementation="eager"; a model without softmax attention has no maps'


@dataclass(frozen=True)
class Plan:
    """What a model gives: the number of heads of each layer, by kind, and where the weights come from.

    places: by kind and layer, the innermost module that returns the weights, and their index in what it returns.
    """

    heads: dict[str, list[int]]
    places: dict[str, list[tuple[nn.Module, int] | None]]
    stack: str  # what the only stack of a model is: "encoder", or "decoder" if it reads from left to right

    @classmethod
    def of(cls, model: nn.Module, inputs: Inputs) -> Plan:
        """Read the two ends of a text and look at what comes back. Raises ValueError for a model without weights."""
        short = {name: _ends(tensor) for name, tensor in inputs.items()}
        sources: dict[int, tuple[nn.Module, int]] = {}
        kept = []  # keeps the tensors alive, so that their ids stay theirs

        def note(module: nn.Module, _args: tuple, output: object) -> None:
            for index, each in enumerate(output if isinstance(output, tuple) else ()):
                if isinstance(each, Tensor) and each.ndim == 4:
                    sources.setdefault(id(each), (module, index))
                    kept.append(each)

        with own_hooks_only(model):
            for module in model.modules():
                module.register_forward_hook(note)
            found = read(model, short)
        stack = "decoder" if _is_causal(found.get("only")) else "encoder"
        found = {stack if kind == "only" else kind: weights for kind, weights in found.items()}
        left = heads_left(model)
        heads = {
            kind: [left.get((kind, layer), (None, each.shape[1]))[1] for layer, each in enumerate(weights)]
            for kind, weights in found.items()
        }
        places = {kind: [sources.get(id(each)) for each in weights] for kind, weights in found.items()}
        return cls(heads, places, stack)

    def checked(self, layers: Layers) -> dict[str, list[int]]:
        """The layers to keep, by kind, in order and without duplicates. Raises TypeError or ValueError."""
        if layers is None:
            return {kind: list(range(len(heads))) for kind, heads in self.heads.items()}
        if isinstance(layers, Mapping):
            unknown = [kind for kind in layers if kind not in self.heads]
            if unknown or not layers:
                raise ValueError(f"layers names {unknown or 'nothing'}: this model has {', '.join(self.heads)}")
            return {kind: self._of_kind(kind, layers[kind]) for kind in self.heads if kind in layers}
        chosen = list(layers) if isinstance(layers, Iterable) and not isinstance(layers, str) else layers
        return {kind: self._of_kind(kind, chosen) for kind in self.heads}

    def _of_kind(self, kind: str, layers: object) -> list[int]:
        last = len(self.heads[kind]) - 1
        if isinstance(layers, str) or not isinstance(layers, Iterable):
            raise TypeError(f"layers must be a list of layer numbers, got {layers!r}")
        layers = list(layers)
        if not layers:
            raise ValueError(f"layers is empty: choose from 0 to {last}, or leave it out for all")
        for layer in layers:
            if not isinstance(layer, Integral) or isinstance(layer, bool):
                raise TypeError(f"a layer must be a whole number, got {layer!r}: the {kind} has layers 0 to {last}")
            if not 0 <= layer <= last:
                raise ValueError(f"layer {layer} does not exist: the {kind} has layers 0 to {last}")
        return sorted({int(layer) for layer in layers})

    def bytes(self, wanted: dict[str, list[int]], texts: int, source: int, target: int | None) -> int:
        """Bytes of the weights of the wanted layers in float32 (4 bytes a weight), for texts of these lengths."""
        sizes = {kind: _size(kind, source, target) for kind in wanted}
        heads = {kind: sum(self.heads[kind][layer] for layer in layers) for kind, layers in wanted.items()}
        return sum(4 * texts * heads[kind] * sizes[kind][0] * sizes[kind][1] for kind in wanted)

    def check_bytes(
        self, wanted: dict[str, list[int]], texts: int, source: int, target: int | None, limit: float
    ) -> None:
        """Raises ValueError when the weights would need more than ``limit`` bytes."""
        needed = self.bytes(wanted, texts, source, target)
        if needed <= limit:
            return
        one = self.bytes({kind: layers[:1] for kind, layers in wanted.items()}, texts, source, target)
        fit = min(int(limit // one), max(map(len, wanted.values()))) if one else 0
        way = f"take fewer layers, such as layers={list(range(fit))}" if fit else "one layer alone is too large"
        lengths = f"{source:,} tokens" + ("" if target is None else f" and {target:,} target tokens")
        raise ValueError(
            f"the maps of {lengths} need {readable(needed)}, more than max_bytes = {readable(limit)}: "
            f"{way}; or give a shorter text, or raise max_bytes"
        )

    def read(self, model: nn.Module, inputs: Inputs, wanted: dict[str, list[int]]) -> Attentions:
        """The weights of the wanted layers, NaN for removed heads; other layers are let go while the model runs."""
        with own_hooks_only(model):
            # Before transformers' hooks, which keep the weights, and after those of the caller where that is possible.
            first = any(INSTALLED in module.__dict__ for module in model.modules())
            for kind, places in self.places.items():
                for layer, place in enumerate(places):
                    if place is not None and layer not in wanted.get(kind, ()):
                        place[0].register_forward_hook(_without(place[1]), prepend=first)
            found = read(model, inputs, wanted, self.stack)
        for (kind, layer), (heads, of) in heads_left(model).items():
            if layer in wanted.get(kind, ()) and len(heads) < of:
                found[kind][layer] = in_original_numbers(found[kind][layer], heads, of)
        return {kind: [found[kind][layer] for layer in layers] for kind, layers in wanted.items()}


def read(
    model: nn.Module, inputs: Inputs, wanted: dict[str, list[int]] | None = None, stack: str = "only"
) -> Attentions:
    """Weights (batch, heads, queries, keys) of each layer, by kind; the kind of an only stack is ``stack``.

    Only wanted layers are checked; None checks all. Raises ValueError for a model that gives no weights, weights of
    another shape, or rows that do not sum to 1.
    """
    outputs = model(**inputs, **_options(model))
    found = {}
    for name, kind in {"attentions": stack, **OUTPUTS}.items():
        weights = outputs.get(name) if hasattr(outputs, "get") else getattr(outputs, name, None)
        if weights is not None and len(weights):
            found[kind] = list(weights)
    del outputs
    expected = list(OUTPUTS.values()) if "decoder_input_ids" in inputs else [stack]
    if any(kind not in found for kind in expected):
        raise ValueError(f"{type(model).__name__} returned no attention weights: {FIX}")
    for kind, weights in found.items():
        for layer, each in enumerate(weights):
            if wanted is None or layer in wanted.get(kind, ()):
                _check(model, kind, layer, each, inputs)
    return found


def readable(size: float) -> str:
    """ "2.3 GB": a number of bytes in units of 1000."""
    for unit in ("bytes", "kB", "MB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:,.1f} GB"


def _options(model: nn.Module) -> dict[str, object]:
    """The keyword arguments of a forward pass that returns weights and computes nothing else that can be left out."""
    options: dict[str, object] = {"output_attentions": True, "return_dict": True, "use_cache": False}
    parameters = inspect.signature(model.forward).parameters
    if "logits_to_keep" in parameters:
        options["logits_to_keep"] = 1
    takes_any = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values())
    return {name: value for name, value in options.items() if takes_any or name in parameters}


def _ends(tensor: Tensor) -> Tensor:
    """The first text of a batch, its first and last tokens; a single token twice."""
    tensor = tensor[:1]
    if tensor.shape[1] == 1:
        return tensor.repeat(1, 2)
    return tensor if tensor.shape[1] <= 2 * PROBE else torch.cat([tensor[:, :PROBE], tensor[:, -PROBE:]], dim=1)


def _is_causal(weights: list[Tensor] | None) -> bool:
    """True if no query gives a later key any weight, in any layer and head."""
    return weights is not None and all(not each.triu(1).any() for each in weights)


def _size(kind: str, source: int, target: int | None) -> tuple[int, int]:
    """The (queries, keys) of a kind's weights, for texts of these lengths."""
    target = source if target is None else target
    return {"encoder": (source, source), "cross": (target, source)}.get(kind, (target, target))


def lengths(inputs: Inputs) -> tuple[int, int, int | None]:
    """Texts, tokens of the longest, and target tokens of the longest (None without a separate decoder)."""
    target = inputs["decoder_input_ids"].shape[1] if "decoder_input_ids" in inputs else None
    return (*inputs["input_ids"].shape, target)


def _check(model: nn.Module, kind: str, layer: int, weights: object, inputs: Inputs) -> None:
    """Raises ValueError unless ``weights`` are softmax weights of the shape (batch, heads, queries, keys)."""
    name = f"{type(model).__name__}, layer {layer}" + ("" if kind == "only" else f" of the {kind}")
    if not isinstance(weights, Tensor):
        raise ValueError(f"{name}: got {type(weights).__name__} instead of attention weights: {FIX}")
    batch, *sizes = lengths(inputs)
    queries, keys = _size(kind, *sizes)
    shape = tuple(weights.shape)
    if len(shape) != 4 or (shape[0], *shape[2:]) != (batch, queries, keys):
        raise ValueError(
            f"{name}: attention weights have the shape {shape}, expected (batch, heads, queries, keys) = "
            f"({batch}, heads, {queries}, {keys}): models with another kind of attention are not supported"
        )
    sums = weights.sum(dim=-1)
    if not torch.isfinite(sums).all():
        raise ValueError(f"{name}: the weights are not finite: the model's parameters or input are not")
    if (sums - 1).abs().max() > 1e-3:
        raise ValueError(
            f"{name}: rows of the weights sum to {float(sums.min()):.3f} to {float(sums.max()):.3f} instead of 1: "
            "they are not plain softmax weights"
        )


def _without(index: int) -> Callable[[nn.Module, tuple, tuple], tuple]:
    """A hook that empties one entry of what a module returns."""

    def let_go(_module: nn.Module, _args: tuple, output: tuple) -> tuple:
        return (*output[:index], output[index].new_empty(0), *output[index + 1 :])

    return let_go
