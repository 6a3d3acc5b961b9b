"""What the planner says about bytes, and what torch holds: models with random weights, on the CPU.

Counted is every allocation that torch records, so a peak is the same on every machine with the same kernels. Weights
are random: what is held does not depend on their values.
"""

from __future__ import annotations

import torch
from torch import nn
from transformers import BertConfig, BertModel, LlamaConfig, LlamaForCausalLM

from utils import planner
from utils.attention_cost import peak_bytes
from utils.heads import Head
from utils.planner import Architecture
from utils.pruning import prune

MASK_BYTES = 4  # of an entry of a dropout mask in torch on a CPU; on a GPU it is 1
OPTIMISERS = {"AdamW float32": torch.optim.AdamW, "SGD float32": torch.optim.SGD}


def encoder(
    heads: int = 12,
    *,
    layers: int = 1,
    removed: int = 0,
    width: int = 768,
    ffn_width: int = 3072,
    vocabulary: int = 1000,
    attention: str = "eager",
    dtype: torch.dtype = torch.float32,
    seed: int = 0,
) -> tuple[BertModel, Architecture]:
    """A BERT with random weights in evaluation mode, and its sizes, without the first ``removed`` heads of every layer.

    attention: "eager", or "flash" for torch's fused kernel.
    """
    planner.transient(planner.MINILM, 1, attention=attention)  # refuses other names of attention
    config = BertConfig(
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=ffn_width,
        vocab_size=vocabulary,
        attn_implementation="sdpa" if attention == "flash" else "eager",
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = BertModel(config).to(dtype).eval()
    sizes = Architecture.of(model).without_heads(removed)
    if removed:
        model = prune(model, [Head(layer, head) for layer in range(layers) for head in range(removed)])
    return model, sizes


def weight_bytes(model: nn.Module) -> int:
    """Bytes of all parameters."""
    return sum(each.nbytes for each in model.parameters())


def inference(model: nn.Module, tokens: int, batch: int = 1) -> int:
    """Bytes at the peak of a forward pass that keeps nothing: weights and all that torch allocates."""
    ids = torch.zeros(batch, tokens, dtype=torch.long)
    return weight_bytes(model) + peak_bytes(lambda: model(ids))


def inference_by_planner(sizes: Architecture, tokens: int, batch: int = 1, *, attention: str, value_bytes: int) -> int:
    """The same by ``utils.planner``."""
    method = {4: "inference float32", 2: "inference float16"}[value_bytes]
    return planner.memory(sizes, tokens, batch, method, attention=attention).total


def training(
    model: nn.Module, tokens: int, batch: int = 1, method: str = "AdamW float32", *, checkpointing: bool = False
) -> int:
    """Bytes at the peak of a training step: weights, gradients, optimiser states and all that the step allocates.

    One step is made first, so that the optimiser has its states. Gradients stay allocated between steps, as when they
    are accumulated. Raises ValueError for a method that this CPU has no optimiser for.
    """
    if method not in OPTIMISERS:
        raise ValueError(f"method is {method!r}: measured are {', '.join(map(repr, OPTIMISERS))}")
    ids = torch.zeros(batch, tokens, dtype=torch.long)
    if checkpointing:
        model.activation_checkpointing_enable()
    optimiser = OPTIMISERS[method](model.train().parameters(), lr=1e-4)

    @torch.enable_grad()
    def step() -> None:
        optimiser.zero_grad(set_to_none=False)
        model(ids).pooler_output.sum().backward()
        optimiser.step()

    step()
    states = sum(each.nbytes for state in optimiser.state.values() for each in state.values())
    return 2 * weight_bytes(model) + states + peak_bytes(step)


def training_by_planner(
    sizes: Architecture, tokens: int, batch: int = 1, method: str = "AdamW float32", *, checkpointing: bool = False
) -> int:
    """The same by ``utils.planner``, eager attention, with masks of dropout as large as on a CPU."""
    parts = planner.memory(sizes, tokens, batch, method, checkpointing=checkpointing)
    options = {"value_bytes": 4, "checkpointing": checkpointing}
    kept = [planner.activations(sizes, tokens, batch, mask_bytes=size, **options) for size in (1, MASK_BYTES)]
    return parts.total + kept[1] - kept[0]


@torch.no_grad()
def cache(kv_heads: int, tokens: int, batch: int = 1, *, layers: int = 12, heads: int = 12) -> tuple[int, int]:
    """Bytes of the cache of a decoder of width 768 in float32, and the same by ``utils.planner``."""
    config = LlamaConfig(
        hidden_size=768,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        intermediate_size=768,
        vocab_size=100,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = LlamaForCausalLM(config).eval()
    found = model(torch.zeros(batch, tokens, dtype=torch.long), use_cache=True).past_key_values
    held = sum(layer.keys.nbytes + layer.values.nbytes for layer in found.layers)
    return held, planner.kv_cache(Architecture.of(model), tokens, batch, value_bytes=4)
