"""Remove heads for good: their weights go, the rest of the model stays, heads keep their original numbers.

``prune`` takes heads out of a copy, ``save_pruned`` and ``load_pruned`` keep it; ``HardConcreteGates`` and
``fit_gates`` learn which heads to close; ``pruning_curve`` shows what an order of heads costs.
"""

from utils.pruning.curves import gate_order, greedy_order, order_by, pruning_curve, random_order
from utils.pruning.fitting import fit_gates
from utils.pruning.gates import HardConcreteGates
from utils.pruning.recipe import load_pruned, save_pruned
from utils.pruning.surgery import prune, removed

__all__ = [
    "HardConcreteGates",
    "fit_gates",
    "gate_order",
    "greedy_order",
    "load_pruned",
    "order_by",
    "prune",
    "pruning_curve",
    "random_order",
    "removed",
    "save_pruned",
]
