"""Bytes: what a transformer holds when it runs and when it is trained.

Left out is what programs add to the arithmetic: buffers of kernels, fragments of the allocator, copies made by a
model's own code. Formula over measured bytes of Hugging Face models on a CPU, as ``tests/unit/test_planner.py`` prints
it: kept for the backward pass BERT 1.00, DistilBERT 1.02, Llama 0.88, GPT-2 0.78; peak of inference BERT and
DistilBERT 1.00, Llama 0.85 to 0.90, GPT-2 0.46 to 0.64 (its GELU is written in several steps); a training step of BERT
with AdamW 0.92 to 0.94. So leave some room, and more of it for decoders.
"""

from __future__ import annotations

from typing import NamedTuple

from utils.planner.sizes import TRAINED, Architecture, one_of, parameters, places, trainable, whole

CONTEXT_BYTES = 400_000_000
"""What a GPU's driver and libraries take before the model: typically 300 to 500 MB. UNCONFIRMED: measure your own."""

ATTENTION = ("eager", "flash")


class Method(NamedTuple):
    """Bytes by which a way to run or train a model is told from another.

    trained: see ``trainable``. weight: bytes of each weight and of each activation; gradient and optimiser: bytes of
    each trained parameter.
    """

    trained: str
    weight: int
    gradient: int
    optimiser: int


# Mixed: weights and gradients of 2 bytes, a float32 copy and two float32 moments: 16 bytes a parameter (ZeRO,
# Rajbhandari et al. 2020, arXiv 1910.02054). 8-bit: moments of 1 byte (Dettmers et al. 2022, arXiv 2110.02861), without
# the few bytes of scale that each block has. SGD: without momentum, which takes 4 bytes more. torch's autocast comes to
# the same 16 bytes by another way (float32 weights, gradients and moments) and adds copies of 2 bytes.
METHODS = {
    "inference float32": Method("nothing", 4, 0, 0),
    "inference float16": Method("nothing", 2, 0, 0),
    "SGD float32": Method("everything", 4, 4, 0),
    "AdamW float32": Method("everything", 4, 4, 8),
    "AdamW mixed": Method("everything", 2, 2, 4 + 8),
    "8-bit Adam mixed": Method("everything", 2, 2, 4 + 2),
    "norms and biases mixed": Method("norms and biases", 2, 2, 4 + 8),
    "LoRA mixed": Method("adapters", 2, 2, 4 + 8),
}


class Memory(NamedTuple):
    """Parts of the peak, in bytes."""

    weights: int
    gradients: int
    optimiser: int
    activations: int
    kv_cache: int
    context: int

    @property
    def total(self) -> int:
        return sum(self)


def score_matrix(architecture: Architecture, tokens: int, batch: int = 1, *, value_bytes: int = 2) -> int:
    """Bytes of the scores of one layer, B H n² b. Eager attention writes them; flash attention never holds them."""
    return places(architecture, tokens, batch) * architecture.heads * tokens * value_bytes


def flash_state(architecture: Architecture, tokens: int, batch: int = 1) -> int:
    """Bytes that flash attention keeps of one layer for the backward pass: B H n float32 normalisers."""
    return places(architecture, tokens, batch) * architecture.heads * 4


def kv_cache(architecture: Architecture, tokens: int, batch: int = 1, *, value_bytes: int = 2) -> int:
    """Bytes of the keys and values that a decoder keeps while it generates, 2 L n H_kv d_h b; 0 for an encoder."""
    a, entries = architecture, places(architecture, tokens, batch)
    return 2 * a.layers * entries * a.key_width * value_bytes if a.kind == "decoder" else 0


def activations(
    architecture: Architecture,
    tokens: int,
    batch: int = 1,
    *,
    attention: str = "eager",
    value_bytes: int = 2,
    mask_bytes: int = 1,
    dropout: bool = True,
    trained: str = "everything",
    checkpointing: bool = False,
) -> int:
    """Bytes that all layers keep for the backward pass.

    With the defaults and f = 4d, L n B d (34 + 5 H n / d): Korthikanti et al. 2022 (arXiv 2205.05198), where attention
    that recomputes its scores ("flash") drops the second term. Counted are inputs of matrices and norms, Q, K, V, the
    feed-forward network before its nonlinearity, the weights before and after dropout, and dropout's masks (on a CPU
    torch keeps them in 4 bytes). Inputs of matrices that are not trained are not kept; LoRA's adapters read one of
    them. ``checkpointing`` keeps the input of each layer and rebuilds one layer at a time. Embeddings are left out.
    """
    a, entries = architecture, places(architecture, tokens, batch)
    one_of("attention", attention, ATTENTION)
    one_of("trained", trained, TRAINED[1:])
    values = 2 * a.width + a.query_width + 2 * a.key_width + (3 if a.gated else 1) * a.ffn_width
    if trained == "everything":
        values += 2 * a.width + a.query_width + a.ffn_width
    else:  # flash attention needs its own output for the backward pass
        values += (a.width if trained == "adapters" else 0) + (a.query_width if attention == "flash" else 0)
    masks = 2 * a.width
    if attention == "eager":
        values += (2 if dropout else 1) * a.heads * tokens
        masks += a.heads * tokens
    layer = entries * (values * value_bytes + (masks * mask_bytes if dropout else 0))
    return a.layers * entries * a.width * value_bytes + layer if checkpointing else a.layers * layer


def transient(
    architecture: Architecture, tokens: int, batch: int = 1, *, attention: str = "eager", value_bytes: int = 2
) -> int:
    """Bytes live at the peak of a forward pass that keeps nothing: one layer, or the scores over the vocabulary.

    Attention holds its input, Q, K, V, and two copies of the scores (before and after softmax) or, in flash
    attention, its output. The feed-forward network holds its input, the residual, and its inside before and after the
    nonlinearity; beside it eager attention's weights, which are returned, live until the layer ends.
    """
    a, entries = architecture, places(architecture, tokens, batch)
    one_of("attention", attention, ATTENTION)
    weights = a.heads * tokens if attention == "eager" else 0
    held = a.width + a.query_width + 2 * a.key_width + (2 * weights or a.query_width)
    inside = 2 * a.width + (3 if a.gated else 2) * a.ffn_width + weights
    output = 0 if a.output == "none" else a.width + a.vocabulary
    return entries * max(held, inside, output) * value_bytes


def memory(
    architecture: Architecture,
    tokens: int,
    batch: int = 1,
    method: str = "inference float16",
    *,
    attention: str = "eager",
    checkpointing: bool = False,
    rank: int = 8,
    context: int = 0,
) -> Memory:
    """The parts of the peak of a forward pass, or of a training step with one of ``METHODS``.

    A decoder that is run is given the cache of its n tokens; one that is trained keeps its scores over the vocabulary
    in float32 for the loss. Dropout is counted but for gated (Llama-like) models, which have none.
    """
    how, a = method_of(method), architecture
    adapted = trainable(a, how.trained, rank)
    added = adapted if how.trained == "adapters" else 0
    if how.trained == "nothing":
        live = transient(a, tokens, batch, attention=attention, value_bytes=how.weight)
        cache = kv_cache(a, tokens, batch, value_bytes=how.weight)
    else:
        options = {"attention": attention, "value_bytes": how.weight, "dropout": not a.gated, "trained": how.trained}
        live, cache = activations(a, tokens, batch, checkpointing=checkpointing, **options), 0
        if attention == "flash":
            live += (1 if checkpointing else a.layers) * flash_state(a, tokens, batch)
        if a.output != "none":
            live += 4 * tokens * batch * a.vocabulary
    weights = (parameters(a).total + added) * how.weight
    states = adapted * how.gradient, adapted * how.optimiser
    return Memory(weights, *states, live, cache, whole("context", context, least=0))


def memory_crossover(architecture: Architecture) -> float:
    """Tokens at which training in eager attention keeps as much for scores as for all else: 6.8 d_h when f = 4d."""
    rest = activations(architecture, 1, attention="flash")
    return rest / (activations(architecture, 1) - rest)


def method_of(name: str) -> Method:
    """A method by its name. Raises ValueError for an unknown one."""
    one_of("method", name, tuple(METHODS))
    return METHODS[name]
