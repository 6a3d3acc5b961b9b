"""Where the attentions of a Hugging Face model lie and how their weights are cut into heads: one table entry a family.

Everything that gates, scores or removes heads goes through ``attentions``. To add a family, add its attention class to
``LAYOUTS`` and a tiny model of it to the tests, which then run over it as over the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import NamedTuple

from torch import Tensor, nn

KINDS = ("encoder", "decoder", "cross")
CROSS = ("cross", "encoder_attn", "EncDecAttention")  # in the names of attentions that read another text
KEPT = "heads_left"  # attribute of an attention some of whose heads were removed


class Layout(NamedTuple):
    """How a class of attention modules names its parts. Paths with dots start at the module."""

    query: str
    key: str
    value: str
    output: str  # the projection that adds the heads up
    size: str  # the number d_head
    counts: tuple[str, ...] = ()  # numbers of heads that have to follow when heads are removed
    widths: tuple[str, ...] = ()  # heads · d_head, likewise
    causal: bool = False  # always reads from left to right
    fused: bool = False  # queries, keys and values come out of one matrix, side by side
    removable: bool = True


LAYOUTS = {
    "BertAttention": Layout(
        "self.query",
        "self.key",
        "self.value",
        "output.dense",
        "self.attention_head_size",
        ("self.num_attention_heads",),
        ("self.all_head_size",),
    ),
    "DistilBertSelfAttention": Layout("q_lin", "k_lin", "v_lin", "out_lin", "attention_head_size", ("n_heads",)),
    "GPT2Attention": Layout(
        "c_attn", "c_attn", "c_attn", "c_proj", "head_dim", ("num_heads",), ("split_size",), causal=True, fused=True
    ),
    "LlamaAttention": Layout("q_proj", "k_proj", "v_proj", "o_proj", "head_dim", causal=True),
    "BartAttention": Layout("q_proj", "k_proj", "v_proj", "out_proj", "head_dim", ("num_heads",)),
    "MarianAttention": Layout("q_proj", "k_proj", "v_proj", "out_proj", "head_dim", ("num_heads",)),
    "T5Attention": Layout("q", "k", "v", "o", "key_value_proj_dim", removable=False),
    "MultiHeadAttention": Layout("query", "key", "value", "output", "d_head", ("heads",)),
}
FAMILIES = "BERT, DistilBERT, GPT-2, Llama, BART, Marian, T5, the book's translator and its MultiHeadAttention"


class Left(NamedTuple):
    """What is left of an attention: the original numbers of its heads, and how many there were."""

    heads: tuple[int, ...]
    of: int
    groups: tuple[int, ...]  # of each original head


@dataclass(frozen=True)
class Attention:
    """One attention of a model.

    heads: original numbers of the heads it still has, in the order of its weights; all_heads: how many it was made
    with; groups: the key/value head of each original head (its own number without grouped queries); size: d_head;
    of_target: its queries are the second text of an encoder–decoder.
    """

    kind: str
    layer: int
    name: str
    module: nn.Module
    layout: Layout
    heads: tuple[int, ...]
    all_heads: int
    groups: tuple[int, ...]
    size: int
    of_target: bool = False

    @property
    def output(self) -> nn.Module:
        return attrgetter(self.layout.output)(self.module)

    @property
    def query(self) -> nn.Module:
        return attrgetter(self.layout.query)(self.module)

    @property
    def key(self) -> nn.Module:
        return attrgetter(self.layout.key)(self.module)

    @property
    def value(self) -> nn.Module:
        return attrgetter(self.layout.value)(self.module)

    def split(self, joined: Tensor) -> Tensor:
        """What enters the output projection, (..., heads · d_head), by head: (..., heads, d_head)."""
        if not self.heads:
            joined = joined[..., :0]  # zeros that stand for a head when none is left
        return joined.unflatten(-1, (len(self.heads), self.size))

    def values(self, projected: Tensor) -> Tensor:
        """What leaves the value projection, by the heads that are left: (..., heads, d_head)."""
        if self.layout.fused:
            projected = projected.chunk(3, dim=-1)[2]
        stored = projected.unflatten(-1, (-1, self.size))
        if stored.shape[-2] == len(self.heads):
            return stored
        known = sorted({self.groups[head] for head in self.heads})
        return stored[..., [known.index(self.groups[head]) for head in self.heads], :]

    def output_blocks(self) -> Tensor:
        """The output projection by head, (heads, d_head, width): a head adds z @ block to the residual stream."""
        weight = self.output.weight
        rows = weight if is_conv1d(self.output) else weight.T
        return rows.unflatten(0, (len(self.heads), self.size))


def attentions(model: nn.Module) -> list[Attention]:
    """All attentions of a model: its encoder's, its decoder's, its cross-attentions, each from the first layer on.

    Raises ValueError, with the way to add a family, for a model with an attention that is not in ``LAYOUTS``.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"a model (torch.nn.Module) is needed, got {type(model).__name__}")
    modules = dict(model.named_modules())
    found = {name: module for name, module in modules.items() if _has_parts(module)}
    _refuse_strangers(model, found)
    by_kind: dict[str, list[Attention]] = {kind: [] for kind in KINDS}
    for name, module in found.items():
        kind = _kind(name, modules)
        by_kind[kind].append(_attention(name, module, kind, len(by_kind[kind])))
    both = bool(by_kind["encoder"] and by_kind["cross"])
    return [replace(each, of_target=both and kind != "encoder") for kind in KINDS for each in by_kind[kind]]


def is_conv1d(module: nn.Module) -> bool:
    """True for GPT-2's projections, whose weight is (in, out) and not (out, in)."""
    return type(module).__name__ == "Conv1D"


def mask_of(attention: Attention, batch: Mapping) -> Tensor | None:
    """Which query positions of a batch are real: boolean (texts, tokens), or None where the batch does not say.

    An encoder–decoder's decoder goes by decoder_attention_mask, else by its labels: what comes after the last one that
    is not −100 is padding.
    """
    if not attention.of_target:
        mask = batch.get("attention_mask")
    elif batch.get("decoder_attention_mask") is not None:
        mask = batch["decoder_attention_mask"]
    else:
        labels = batch.get("labels")
        mask = (labels != -100).flip(-1).cummax(-1).values.flip(-1) if isinstance(labels, Tensor) else None
    return mask.bool() if isinstance(mask, Tensor) and mask.ndim == 2 else None


def _has_parts(module: nn.Module) -> bool:
    """True for a known attention; a class may have the name of one and other parts."""
    layout = LAYOUTS.get(type(module).__name__)
    try:
        return layout is not None and bool(attrgetter(*layout[:5])(module))
    except AttributeError:
        return False


def _kind(name: str, modules: dict[str, nn.Module]) -> str:
    module, own = modules[name], name.rpartition(".")[2]
    if any(word in own for word in CROSS) or getattr(module, "is_cross_attention", False):
        return "cross"
    layout, steps = LAYOUTS[type(module).__name__], name.split(".")
    around = [modules[".".join(steps[:end])] for end in range(len(steps) - 1, 0, -1)] + [modules[""]]
    beside = name and any(word in child for child, _ in around[0].named_children() for word in CROSS)
    flags = [getattr(module, "is_decoder", None)]  # BART, Marian and T5 say it there, BERT in its config
    flags += [getattr(getattr(each, "config", None), "is_decoder", None) for each in around]
    causal = layout.causal or beside or next((each for each in flags if each is not None), False)
    return "decoder" if causal else "encoder"


def _attention(name: str, module: nn.Module, kind: str, layer: int) -> Attention:
    layout = LAYOUTS[type(module).__name__]
    if layout.fused and kind == "cross":
        raise ValueError(f"{type(module).__name__} as cross-attention is not supported; supported are {FAMILIES}")
    size = attrgetter(layout.size)(module)
    left = getattr(module, KEPT, None) or _whole(module, layout, size)
    return Attention(kind, layer, name, module, layout, left.heads, left.of, left.groups, size)


def _whole(module: nn.Module, layout: Layout, size: int) -> Left:
    """An attention that still has all its heads."""
    count, shared = (_outputs(attrgetter(path)(module)) // size for path in (layout.query, layout.key))
    if layout.fused:
        count = shared = count // 3
    return Left(tuple(range(count)), count, tuple(head * shared // count for head in range(count)))


def _outputs(projection: nn.Module) -> int:
    return projection.weight.shape[1 if is_conv1d(projection) else 0]


def _refuse_strangers(model: nn.Module, known: dict[str, nn.Module]) -> None:
    """Raises ValueError if a module looks like an attention and is neither known, nor part of one, nor around one."""
    strangers = {
        f"{type(module).__module__}." * (type(module).__name__ in LAYOUTS) + type(module).__name__
        for name, module in model.named_modules()
        if "Attention" in type(module).__name__
        and name not in known
        and not any(_within(name, other) or _within(other, name) for other in known)
    }
    if strangers or not known:
        what = f"the attention {', '.join(sorted(strangers))}" if strangers else "no attention that is known"
        raise ValueError(
            f"{type(model).__name__} has {what}: supported are {FAMILIES}. To add a family, enter its attention class "
            "in utils.architectures.LAYOUTS and a tiny model of it in tests/unit/families.py"
        )


def _within(inner: str, outer: str) -> bool:
    return outer == "" or inner.startswith(f"{outer}.")
