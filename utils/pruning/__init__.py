"""Remove heads for good: their weights go, the rest of the model stays, heads keep their original numbers."""

from utils.pruning.surgery import prune, removed

__all__ = ["prune", "removed"]
