"""The sizes that describe a transformer, and the parameters that follow from them.

Symbols: d width, H heads, d_h head width, H_kv key/value heads, f width of the feed-forward network, L layers. All
formulas are sums and products of whole numbers. The other modules turn them into bytes, operations and seconds.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass, replace
from typing import NamedTuple

from torch import nn

SUPPORTED = {"bert": "BERT", "distilbert": "DistilBERT", "gpt2": "GPT-2", "llama": "Llama"}
TRAINED = ("nothing", "everything", "norms and biases", "adapters")


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """An encoder (BERT) or a decoder (GPT-2, Llama) with equal layers, each of attention and feed-forward network.

    head_width: width / heads unless told; kv_heads: heads unless told (fewer: grouped queries; 1: multi-query);
    ffn_width: 4 · width unless told. positions and token_types: rows of learned tables (0: none, as with rotary
    positions); pooler: BERT's last dense layer over the first token. gated: as Llama, with a third matrix in the
    feed-forward network, no biases, and norms without a bias. output: scores over the vocabulary, "none", "tied" to
    the embeddings (no parameters of its own) or "untied".
    Raises TypeError for sizes that are not whole numbers, ValueError for sizes that do not fit together.
    """

    layers: int
    width: int
    heads: int
    vocabulary: int
    positions: int
    head_width: int | None = None
    kv_heads: int | None = None
    ffn_width: int | None = None
    token_types: int = 0
    pooler: bool = False
    kind: str = "encoder"
    gated: bool = False
    output: str = "none"

    def __post_init__(self) -> None:
        one_of("kind", self.kind, ("encoder", "decoder"))
        one_of("output", self.output, ("none", "tied", "untied"))
        for each in ("layers", "width", "heads", "vocabulary"):
            self._keep(each, whole(each, getattr(self, each)))
        for each in ("positions", "token_types"):
            self._keep(each, whole(each, getattr(self, each), least=0))
        if self.head_width is None and self.width % self.heads:
            fitting = [heads for heads in range(1, min(self.width, 64) + 1) if self.width % heads == 0]
            raise ValueError(
                f"width {self.width} cannot be shared by {self.heads} heads: take one of {fitting} heads, "
                "or give head_width"
            )
        defaults = {"head_width": self.width // self.heads, "kv_heads": self.heads, "ffn_width": 4 * self.width}
        for each, default in defaults.items():
            given = getattr(self, each)
            self._keep(each, default if given is None else whole(each, given))
        if self.heads % self.kv_heads:
            fitting = [number for number in range(1, self.heads + 1) if self.heads % number == 0]
            raise ValueError(
                f"{self.heads} heads cannot share {self.kv_heads} key/value heads: take one of {fitting} kv_heads"
            )

    def _keep(self, name: str, value: int) -> None:
        object.__setattr__(self, name, value)

    @property
    def group(self) -> int:
        """Query heads that share a key/value head: 1 in plain multi-head attention."""
        return self.heads // self.kv_heads

    @property
    def query_width(self) -> int:
        """H d_h: numbers in the queries, or in the heads' outputs, of a token. Equal to the width before pruning."""
        return self.heads * self.head_width

    @property
    def key_width(self) -> int:
        """H_kv d_h: numbers in the keys, or in the values, of a token."""
        return self.kv_heads * self.head_width

    def with_heads(self, heads: int, kv_heads: int | None = None) -> Architecture:
        """The same width split into other heads (head_width = width / heads); kv_heads: heads unless told."""
        return replace(self, heads=heads, head_width=None, kv_heads=kv_heads)

    def without_heads(self, removed: int) -> Architecture:
        """After structured pruning: ``removed`` query heads fewer in every layer, width and head width unchanged.

        Grouped queries go with their key/value head, so only whole groups can go. Masked heads save nothing: they
        are still computed. Raises ValueError when a group would be torn or no head be left.
        """
        removed = whole("removed", removed, least=0)
        if removed % self.group or removed >= self.heads:
            raise ValueError(
                f"cannot remove {removed} of {self.heads} heads: take one of "
                f"{list(range(0, self.heads, self.group))} (whole groups of {self.group}, one must stay)"
            )
        return replace(self, heads=self.heads - removed, kv_heads=self.kv_heads - removed // self.group)

    @classmethod
    def of(cls, model: nn.Module) -> Architecture:
        """The sizes of a Hugging Face BERT, DistilBERT, GPT-2 or Llama, and of its output over the vocabulary.

        Other heads on top (a classifier, BERT's masked language model) are not described. Raises ValueError for
        other models by name, and for a model whose body does not have the parameters that its sizes imply (pruned,
        with adapters, with cross-attention).
        """
        config = getattr(model, "config", None)
        family = getattr(config, "model_type", None)
        if family not in SUPPORTED:
            raise ValueError(
                f"{type(model).__name__} (type {family!r}) is not supported: give a model of one of the types "
                f"{', '.join(SUPPORTED.values())}, or write Architecture(layers=…, width=…, heads=…, …) yourself"
            )
        body, gated = model.base_model, family == "llama"
        scores = None if family in ("bert", "distilbert") else model.get_output_embeddings()
        tied = scores is not None and scores.weight is model.get_input_embeddings().weight
        ffn_width = {"distilbert": "hidden_dim", "gpt2": "n_inner"}.get(family, "intermediate_size")
        architecture = cls(
            layers=config.num_hidden_layers,
            width=config.hidden_size,
            heads=config.num_attention_heads,
            vocabulary=config.vocab_size,
            positions=0 if gated else config.max_position_embeddings,
            head_width=getattr(config, "head_dim", None),
            kv_heads=getattr(config, "num_key_value_heads", None),
            ffn_width=getattr(config, ffn_width),
            token_types=config.type_vocab_size if family == "bert" else 0,
            pooler=getattr(body, "pooler", None) is not None,
            kind="decoder" if gated or family == "gpt2" or getattr(config, "is_decoder", False) else "encoder",
            gated=gated,
            output="none" if scores is None else "tied" if tied else "untied",
        )
        expected = parameters(architecture).total - parameters(architecture).output
        found = sum(parameter.numel() for parameter in body.parameters())
        if found != expected:
            raise ValueError(
                f"{type(model).__name__} has {found:,} parameters, but its config implies {expected:,}: read the "
                "unchanged model and use .without_heads(…), or write Architecture(…) yourself"
            )
        return architecture


class Parameters(NamedTuple):
    """Numbers of parameters. In a whole model norms are those of all layers and the one beside them."""

    attention: int
    ffn: int
    norms: int
    embeddings: int = 0
    pooler: int = 0
    output: int = 0

    @property
    def total(self) -> int:
        return sum(self)


def layer_parameters(architecture: Architecture) -> Parameters:
    """Of one layer: 4d² + 4d (attention), 8d² + 5d (feed-forward), 4d (norms) for H d_h = d, H_kv = H and f = 4d."""
    a = architecture
    queries, keys = a.query_width, a.key_width
    attention, ffn, norms = 2 * a.width * (queries + keys), (3 if a.gated else 2) * a.width * a.ffn_width, 2 * a.width
    if not a.gated:  # the biases
        attention, ffn, norms = attention + queries + 2 * keys + a.width, ffn + a.ffn_width + a.width, 2 * norms
    return Parameters(attention, ffn, norms)


def parameters(architecture: Architecture) -> Parameters:
    """Of the whole model. BERT-base: 109,482,240."""
    a, layer = architecture, layer_parameters(architecture)
    return Parameters(
        attention=a.layers * layer.attention,
        ffn=a.layers * layer.ffn,
        norms=a.layers * layer.norms + layer.norms // 2,  # one more after the embeddings or before the output
        embeddings=(a.vocabulary + a.positions + a.token_types) * a.width,
        pooler=a.width * (a.width + 1) if a.pooler else 0,
        output=a.vocabulary * a.width if a.output == "untied" else 0,
    )


def group_parameters(architecture: Architecture) -> int:
    """What leaves with one key/value head and its query heads; in plain attention one head: 4 d d_h + 3 d_h biases."""
    a = architecture
    weights = 2 * (a.group + 1) * a.width * a.head_width
    return weights if a.gated else weights + (a.group + 2) * a.head_width


def trainable(architecture: Architecture, trained: str = "everything", rank: int = 8) -> int:
    """Parameters that get a gradient.

    trained: one of ``TRAINED``. "norms and biases" leaves all matrices and tables as they are (BitFit trains the
    biases: Ben-Zaken et al. 2022, arXiv 2106.10199). "adapters" is LoRA (Hu et al. 2022, arXiv 2106.09685) of the
    given rank on the query and the value projection; its weights come on top of the model's.
    """
    a, counts = architecture, parameters(architecture)
    queries, keys = a.query_width, a.key_width
    one_of("trained", trained, TRAINED)
    if trained == "adapters":
        return a.layers * whole("rank", rank) * (2 * a.width + queries + keys)
    if trained == "norms and biases":
        biases = 0 if a.gated else a.layers * (queries + 2 * keys + 2 * a.width + a.ffn_width)
        return counts.norms + biases + (a.width if a.pooler else 0)
    return counts.total if trained == "everything" else 0


def places(architecture: Architecture, tokens: int, batch: int = 1) -> int:
    """Tokens of the whole batch, n B. Raises ValueError when the model has no position for the last token."""
    tokens, batch = whole("tokens", tokens), whole("batch", batch)
    if 0 < architecture.positions < tokens:
        raise ValueError(
            f"tokens is {tokens}, but the model has positions for {architecture.positions}: "
            "shorten the texts, or give the architecture more positions"
        )
    return tokens * batch


def whole(name: str, value: int, least: int = 1) -> int:
    """``value`` as an int. Raises TypeError when it is not a whole number, ValueError when it is below ``least``."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} is {value!r} ({type(value).__name__}): give a whole number such as {max(least, 1)}")
    if operator.index(value) < least:
        raise ValueError(f"{name} is {value}: give a whole number of at least {least}")
    return operator.index(value)


def one_of(name: str, value: str, choices: tuple[str, ...]) -> None:
    """Raises ValueError when ``value`` is none of the choices."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} is {value!r}: give one of {', '.join(map(repr, choices))}")


BERT_BASE = Architecture(layers=12, width=768, heads=12, vocabulary=30522, positions=512, token_types=2, pooler=True)
DISTILBERT = Architecture(layers=6, width=768, heads=12, vocabulary=30522, positions=512)
MINILM = replace(BERT_BASE, layers=6, width=384, head_width=32, ffn_width=1536)
GPT2 = Architecture(layers=12, width=768, heads=12, vocabulary=50257, positions=1024, kind="decoder", output="tied")
