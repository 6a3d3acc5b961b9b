"""What a model is given to read: token ids within its limits, padded, and the texts of its decoder."""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral

import torch
from torch import Tensor, nn

from utils.attention.tokens import Encoded, encode

NEW_TOKENS = 128  # the most tokens a model writes when no target is given

Inputs = dict[str, Tensor]


def encoder_decoder(model: nn.Module) -> bool:
    """True for a model that reads a source with one stack and writes a target with another."""
    return bool(getattr(model.config, "is_encoder_decoder", False))


def longest(model: nn.Module, tokenizer) -> int | None:
    """The most tokens that the model and its tokenizer take, None if there is no limit."""
    limits = [getattr(tokenizer, "model_max_length", None), getattr(model.config, "max_position_embeddings", None)]
    for name, module in model.named_modules():
        # RoBERTa and its kin count positions from padding_idx + 1.
        if name.endswith("position_embeddings") and isinstance(module, nn.Embedding) and module.padding_idx is not None:
            limits.append(module.num_embeddings - module.padding_idx - 1)
    return min((int(each) for each in limits if isinstance(each, Integral) and 0 < each < 10**9), default=None)


def encode_target(model: nn.Module, tokenizer, text: str, *, name: str = "target") -> Encoded:
    """What the decoder reads while it writes ``text``: the start token, then the text without its end token."""
    pieces = encode(tokenizer, text, longest(model, tokenizer), target=True, name=name)
    end = [] if pieces.special[-1] else [getattr(model.config, "eos_token_id", None) or 0]
    labels = torch.tensor([pieces.ids + end])
    shift = getattr(model, "prepare_decoder_input_ids_from_labels", None)
    ids = (
        [*start_of_decoder(model).ids, *labels[0, :-1].tolist()] if shift is None else shift(labels=labels)[0].tolist()
    )
    kept = len(ids) - 1
    if ids[1:] != pieces.ids[:kept]:
        raise ValueError(f"{type(model).__name__} orders the tokens of its decoder in a way that is not supported")
    is_pad = ids[0] == getattr(tokenizer, "pad_token_id", None)
    return replace(
        pieces,
        ids=ids,
        labels=["[start]" if is_pad else tokenizer.convert_ids_to_tokens(ids[0]), *pieces.labels[:kept]],
        words=[None, *pieces.words[:kept]],
        special=[True, *pieces.special[:kept]],
    )


def start_of_decoder(model: nn.Module) -> Encoded:
    """The one token that a decoder reads before it writes anything. Raises ValueError if the config names none."""
    names = ("decoder_start_token_id", "bos_token_id")
    start = next((getattr(model.config, each) for each in names if getattr(model.config, each, None) is not None), None)
    if start is None:
        raise ValueError(
            f"the config of {type(model).__name__} has no decoder_start_token_id: its decoder cannot begin"
        )
    return Encoded(ids=[int(start)], labels=["[start]"], words=[None], special=[True], word_labels=[])


def own_target(model: nn.Module, tokenizer, source: Encoded) -> tuple[str, list[str]]:
    """The model's own greedy output for the source, and the notice that says so. Raises ValueError."""
    name = type(model).__name__
    if not (hasattr(model, "can_generate") and model.can_generate()):
        raise ValueError(f'{name} reads two texts and cannot write the second itself: pass target="…"')
    limit = min(NEW_TOKENS, (longest(model, tokenizer) or NEW_TOKENS) - 2)
    ids = model.generate(**inputs_for(model, [source]), do_sample=False, num_beams=1, max_new_tokens=limit)[0]
    text = tokenizer.decode(ids, skip_special_tokens=True).strip()
    if not text:
        raise ValueError(f'{name} wrote nothing for this text: pass target="…"')
    return text, [f"no target given: the decoder reads what the model itself wrote: {text}"]


def inputs_for(model: nn.Module, sources: list[Encoded], targets: list[Encoded] | None = None) -> Inputs:
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
    """Ids and mask (texts, tokens of the longest), padded at the end."""
    size = (len(texts), max(len(text) for text in texts))
    ids, mask = torch.full(size, pad), torch.zeros(size, dtype=torch.long)
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
