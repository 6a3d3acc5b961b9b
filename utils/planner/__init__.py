"""What a transformer costs, in parameters, bytes, operations and seconds, and which variants fit a budget.

Read ``sizes`` (an architecture and its parameters), ``memory``, ``operations`` and ``plans`` in this order. All of it
is plain arithmetic on sizes: n tokens, B texts in a batch, d width, H heads, d_h head width, H_kv key/value heads, f
width of the feed-forward network, L layers, V vocabulary. Bytes and operations are whole numbers; 1 MB = 10⁶ bytes.
"""

from utils.planner.memory import (
    CONTEXT_BYTES,
    METHODS,
    Memory,
    Method,
    activations,
    flash_state,
    kv_cache,
    memory,
    memory_crossover,
    score_matrix,
    transient,
)
from utils.planner.operations import (
    Flops,
    Machine,
    compute_crossover,
    flops,
    layer_flops,
    seconds,
    seconds_per_token,
    training_flops,
)
from utils.planner.plans import heads_of_share, largest_batch, plan, pruning_table
from utils.planner.sizes import (
    BERT_BASE,
    DISTILBERT,
    GPT2,
    MINILM,
    Architecture,
    Parameters,
    group_parameters,
    layer_parameters,
    parameters,
    trainable,
)

__all__ = [
    "Architecture",
    "BERT_BASE",
    "CONTEXT_BYTES",
    "DISTILBERT",
    "Flops",
    "GPT2",
    "METHODS",
    "MINILM",
    "Machine",
    "Memory",
    "Method",
    "Parameters",
    "activations",
    "compute_crossover",
    "flash_state",
    "flops",
    "group_parameters",
    "heads_of_share",
    "kv_cache",
    "largest_batch",
    "layer_flops",
    "layer_parameters",
    "memory",
    "memory_crossover",
    "parameters",
    "plan",
    "pruning_table",
    "score_matrix",
    "seconds",
    "seconds_per_token",
    "trainable",
    "training_flops",
    "transient",
]
