"""Remove heads for good: their weights go, the rest of the model stays, heads keep their original numbers."""

from utils.pruning.fitting import fit_gates
from utils.pruning.gates import HardConcreteGates
from utils.pruning.recipe import load_pruned, save_pruned
from utils.pruning.surgery import prune, removed

__all__ = ["HardConcreteGates", "fit_gates", "load_pruned", "prune", "removed", "save_pruned"]
