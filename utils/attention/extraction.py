"""Attention maps out of any model that computes softmax attention, without leaving a trace in the model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Integral

import torch
from torch import Tensor, nn

from utils.attention.maps import AttentionMaps, Kind
from utils.attention.reading import Inputs, Layers, Plan, lengths
from utils.attention.tokens import Encoded, encode
from utils.models import quiet

MAX_BYTES = 2**30  # 1 GiB of weights
NEW_TOKENS = 128  # the most tokens a model writes when no target is given


def attention_maps(
    model: nn.Module,
    tokenizer,
    text: str,
    target: str | None = None,
    *,
    layers: Layers = None,
    max_bytes: int = MAX_BYTES,
) -> dict[str, AttentionMaps]:
    """The attention weights of every layer and head for one text, keyed "encoder", "decoder", "cross".

    Only the kinds that the model has are in the result; a model that reads from left to right is a "decoder". An
    encoder–decoder reads ``target`` in its decoder; without one it translates the text itself, and a notice says so.
    Row t of its decoder is the t-th token it has read, beginning with its start token.

    layers: the layers to keep, for all kinds, or a dictionary from kind to layers. max_bytes: refuse beforehand what
    needs more memory than this (4 bytes a weight).
    For the extraction the model is in evaluation mode, in float32 and on eager attention, and afterwards exactly as it
    was. Raises TypeError or ValueError for a text with nothing to read, for layers that do not exist, for maps above
    ``max_bytes``, and for a model that does not give its weights.
    """
    with extracting(model):
        source = encode(tokenizer, text, longest(model, tokenizer))
        written, notices = target, []
        if not encoder_decoder(model):
            if target is not None:
                raise ValueError(f"{type(model).__name__} has no separate decoder: leave target out")
        elif written is None:
            written, notices = _own_target(model, tokenizer, source)
        decoded = None if written is None else encode_target(model, tokenizer, written)
        inputs = inputs_for(model, [source], None if decoded is None else [decoded])
        plan = Plan.of(model, inputs)
        wanted = plan.checked(layers)
        plan.check_bytes(wanted, *lengths(inputs), max_bytes)
        found = plan.read(model, inputs, wanted)
        return {
            kind: _maps(model, kind, wanted[kind], found.pop(kind), source, decoded, notices) for kind in list(found)
        }


@contextmanager
def extracting(model: nn.Module) -> Iterator[None]:
    """In the scope: evaluation mode, float32, eager attention, no gradient, silence. Afterwards all is as it was."""
    if not isinstance(model, nn.Module) or not hasattr(model, "config"):
        raise TypeError(
            f"model must be a transformers model, got {type(model).__name__}"
            + (
                ": pass model[0].auto_model and model.tokenizer"
                if type(model).__name__ == "SentenceTransformer"
                else ""
            )
        )
    modules = list(model.modules())
    training = [module.training for module in modules]
    hooks = [(list(module._forward_hooks), module.__dict__.get(_INSTALLED, _ABSENT)) for module in modules]
    backends = [(config, getattr(config, _BACKEND, None)) for config in _configs(modules)]
    tensors = [(tensor, tensor.data) for tensor in _floats(model)]
    device = next((tensor.device.type for tensor, _ in tensors), "cpu")
    try:
        with quiet(), torch.no_grad(), torch.autocast(device, enabled=False):
            for module in modules:
                module.training = False
            if hasattr(model, "set_attn_implementation"):
                model.set_attn_implementation("eager")
            for tensor, data in tensors:
                tensor.data = data.float()
            yield
    finally:
        for tensor, data in tensors:
            tensor.data = data
        for config, backend in backends:
            setattr(config, _BACKEND, backend)
        for module, mode, (own, installed) in zip(modules, training, hooks, strict=True):
            module.training = mode
            for key in [key for key in module._forward_hooks if key not in own]:
                _remove_hook(module, key)
            if installed is _ABSENT:
                module.__dict__.pop(_INSTALLED, None)


_BACKEND = "_attn_implementation_internal"
_INSTALLED = "_output_capturing_hooks_installed"  # transformers notes here that its own hooks are in place
_ABSENT = object()


def _configs(modules: list[nn.Module]) -> list:
    """Every config in the model once, those inside other configs too."""
    found, todo = {}, [module.config for module in modules if hasattr(getattr(module, "config", None), _BACKEND)]
    while todo:
        config = todo.pop()
        if id(config) not in found:
            found[id(config)] = config
            inner = (getattr(config, name, None) for name in getattr(config, "sub_configs", {}))
            todo += [each for each in inner if each is not None]
    return list(found.values())


def _floats(model: nn.Module) -> list[Tensor]:
    """Parameters and buffers in another floating-point format than float32."""
    tensors = [*model.parameters(), *model.buffers()]
    return [each for each in tensors if each.is_floating_point() and each.dtype != torch.float32]


def _remove_hook(module: nn.Module, key: int) -> None:
    for hooks in (module._forward_hooks, module._forward_hooks_with_kwargs, module._forward_hooks_always_called):
        hooks.pop(key, None)


def encoder_decoder(model: nn.Module) -> bool:
    """True for a model that reads a source with one stack and writes a target with another."""
    return bool(getattr(model.config, "is_encoder_decoder", False))


def longest(model: nn.Module, tokenizer) -> int | None:
    """The most tokens that the model and its tokenizer take, None if there is no limit."""
    limits = [getattr(tokenizer, "model_max_length", None), getattr(model.config, "max_position_embeddings", None)]
    for name, module in model.named_modules():
        # RoBERTa and its kin count positions from padding_idx + 1
        if name.endswith("position_embeddings") and isinstance(module, nn.Embedding) and module.padding_idx is not None:
            limits.append(module.num_embeddings - module.padding_idx - 1)
    limits = [int(each) for each in limits if isinstance(each, Integral) and 0 < each < 10**9]
    return min(limits, default=None)


def encode_target(model: nn.Module, tokenizer, text: str, *, name: str = "target") -> Encoded:
    """What the decoder reads while it writes ``text``: the start token, then the text without its end token."""
    pieces = encode(tokenizer, text, longest(model, tokenizer), target=True, name=name)
    end = [] if pieces.special[-1] else [getattr(model.config, "eos_token_id", None) or 0]
    labels = torch.tensor([pieces.ids + end])
    shift = getattr(model, "prepare_decoder_input_ids_from_labels", None)
    start = start_of_decoder(model)
    ids = [*start.ids, *labels[0, :-1].tolist()] if shift is None else shift(labels=labels)[0].tolist()
    kept = len(ids) - 1
    if ids[1:] != pieces.ids[:kept]:
        raise ValueError(f"{type(model).__name__} orders the tokens of its decoder in a way that is not supported")
    first = "[start]" if ids[0] == getattr(tokenizer, "pad_token_id", None) else tokenizer.convert_ids_to_tokens(ids[0])
    return Encoded(
        ids=ids,
        labels=[first, *pieces.labels[:kept]],
        words=[None, *pieces.words[:kept]],
        special=[True, *pieces.special[:kept]],
        word_labels=pieces.word_labels,
        notices=pieces.notices,
    )


def start_of_decoder(model: nn.Module) -> Encoded:
    """The one token that a decoder reads before it writes anything. Raises ValueError if the config names none."""
    names = ("decoder_start_token_id", "bos_token_id")
    start = next((getattr(model.config, each) for each in names if getattr(model.config, each, None) is not None), None)
    if start is None:
        raise ValueError(
            f"the config of {type(model).__name__} names no decoder_start_token_id: the decoder cannot begin"
        )
    return Encoded(ids=[int(start)], labels=["[start]"], words=[None], special=[True], word_labels=[])


def _own_target(model: nn.Module, tokenizer, source: Encoded) -> tuple[str, list[str]]:
    """The model's own greedy output for the source, and the notice that says so. Raises ValueError."""
    name = type(model).__name__
    if not (hasattr(model, "can_generate") and model.can_generate()):
        raise ValueError(f'{name} reads two texts and cannot write the second itself: pass target="…"')
    inputs = inputs_for(model, [source], None)
    limit = min(NEW_TOKENS, (longest(model, tokenizer) or NEW_TOKENS) - 2)
    ids = model.generate(**inputs, do_sample=False, num_beams=1, max_new_tokens=limit)[0]
    text = tokenizer.decode(ids, skip_special_tokens=True).strip()
    if not text:
        raise ValueError(f'{name} wrote nothing for this text: pass target="…"')
    return text, [f"no target given: the decoder reads what the model itself wrote: {text}"]


def inputs_for(model: nn.Module, sources: list[Encoded], targets: list[Encoded] | None) -> Inputs:
    """Padded ids and masks of some texts, on the model's device. Raises ValueError for ids the model does not know."""
    device = next(model.parameters()).device
    pad = getattr(model.config, "pad_token_id", None)
    pad = pad if isinstance(pad, int) and pad >= 0 else 0
    _check_ids(model, sources + (targets or []))
    ids, mask = _padded(sources, pad)
    inputs = {"input_ids": ids.to(device), "attention_mask": mask.to(device)}
    if targets is not None:
        ids, mask = _padded(targets, pad)
        inputs |= {"decoder_input_ids": ids.to(device), "decoder_attention_mask": mask.to(device)}
    return inputs


def _padded(texts: list[Encoded], pad: int) -> tuple[Tensor, Tensor]:
    longest_text = max(len(text) for text in texts)
    ids = torch.full((len(texts), longest_text), pad)
    mask = torch.zeros(len(texts), longest_text, dtype=torch.long)
    for row, text in enumerate(texts):
        ids[row, : len(text)] = torch.tensor(text.ids)
        mask[row, : len(text)] = 1
    return ids, mask


def _check_ids(model: nn.Module, texts: list[Encoded]) -> None:
    table = model.get_input_embeddings() if hasattr(model, "get_input_embeddings") else None
    size = getattr(table, "num_embeddings", None)
    highest = max(max(text.ids) for text in texts)
    if size is not None and highest >= size:
        raise ValueError(
            f"the tokenizer gives token {highest}, but {type(model).__name__} knows tokens 0 to {size - 1}: "
            "load model and tokenizer together"
        )


def _maps(
    model: nn.Module,
    kind: Kind,
    layers: list[int],
    weights: list[Tensor],
    source: Encoded,
    decoded: Encoded | None,
    notices: list[str],
) -> AttentionMaps:
    """The maps of one kind, out of its layers' weights (1, heads, queries, keys), which are taken from the list."""
    queries = source if decoded is None or kind == "encoder" else decoded
    keys = decoded if decoded is not None and kind == "decoder" else source
    stacked = torch.empty(len(weights), *weights[0].shape[1:], dtype=torch.float32)
    for index in range(len(weights)):
        stacked[index] = weights[index][0]
        weights[index] = None
    own = list(dict.fromkeys([*queries.notices, *keys.notices, *([] if kind == "encoder" else notices)]))
    return AttentionMaps(
        weights=stacked,
        queries=queries.labels,
        keys=keys.labels,
        layers=layers,
        kind=kind,
        query_words=queries.words,
        key_words=keys.words,
        special_queries=torch.tensor(queries.special),
        special_keys=torch.tensor(keys.special),
        notices=own,
        groups=groups(model, stacked.shape[1]),
        query_word_labels=queries.word_labels,
        key_word_labels=keys.word_labels,
    )


def groups(model: nn.Module, heads: int) -> list[int]:
    """The key/value head of each query head: in grouped-query attention several query heads share one."""
    shared = getattr(model.config, "num_key_value_heads", None) or heads
    if heads % shared:
        return list(range(heads))
    return [head // (heads // shared) for head in range(heads)]
