"""Which heads matter: gradient scores, exact ablation of every head, and what each head adds to each position."""

from utils.importance.contributions import Contributions, contribution_norms
from utils.importance.effects import ablation_effect
from utils.importance.gradients import importance

__all__ = ["Contributions", "ablation_effect", "contribution_norms", "importance"]
