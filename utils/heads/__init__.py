"""Name the heads of a model, scale them by gates, or take them out for a while.

transformers 5 has neither ``head_mask`` nor ``prune_heads``: a ``head_mask=`` is accepted and does nothing. Here a gate
multiplies a head's output before the output projection, under every attention backend, and the model is bitwise what
it was when the scope ends. ``utils.pruning`` removes heads for good.
"""

from utils.heads.ablation import ablated, head_outputs
from utils.heads.gates import gated
from utils.heads.names import Head, heads_of, resolve

__all__ = ["Head", "ablated", "gated", "head_outputs", "heads_of", "resolve"]
