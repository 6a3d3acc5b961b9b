"""Gates that learn to close: Hard-Concrete gates with an L0 penalty on heads.

Source: Louizos, Welling, Kingma 2018 (arXiv 1712.01312), section 2; on attention heads: Voita et al. 2019
(arXiv 1905.09418), section 6.1.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from numbers import Real

import torch
from torch import Tensor, nn

from utils.architectures import attentions
from utils.heads import Head

TEMPERATURE = 2 / 3  # Louizos et al. 2018, section 4; the code of Voita et al. 2019 has 0.33, with the same stretch
STRETCH = (-0.1, 1.1)  # likewise
START = 2.0  # log α at the beginning: a gate is then above 0 with probability 0.97, and 0.96 at evaluation
EDGE = 1e-6  # keeps the uniform noise off 0 and 1


class HardConcreteGates(nn.Module):
    """One gate for each head that a model still has, of the kinds asked for: pass ``gates()`` to ``gated``.

    In training mode a call draws each gate once, as equations 10 and 11 say: with u uniform on (0, 1),
    s = sigmoid((log u − log(1 − u) + log α) / β), stretched to (γ, ζ) and cut to [0, 1]. So a gate is exactly 0 or 1
    with a probability above 0, and has a gradient in between. In evaluation mode it is the fixed value of equation
    13, min(1, max(0, sigmoid(log α)(ζ − γ) + γ)); it is 0 where log α ≤ log(−γ / ζ), −2.40 with the default stretch.

    log_alpha: by kind, a parameter (layers, heads) in original numbers; gates of heads that were removed count
    nowhere. kinds: such as ["encoder"]; all that the model has unless told. temperature: β, lower is closer to 0 or 1;
    stretch: (γ, ζ) with γ < 0 and ζ > 1; start: the first log α.
    """

    def __init__(
        self,
        model: nn.Module,
        kinds: str | Iterable[str] | None = None,
        *,
        temperature: float = TEMPERATURE,
        stretch: tuple[float, float] = STRETCH,
        start: float = START,
    ):
        super().__init__()
        found = attentions(model)
        self.kinds = _kinds(list(dict.fromkeys(each.kind for each in found)), kinds)
        self.temperature, self.stretch = _checked(temperature, stretch, start)
        self.log_alpha = nn.ParameterDict()
        for kind in self.kinds:
            layers = [each for each in found if each.kind == kind]
            there = torch.tensor([[head in each.heads for head in range(each.all_heads)] for each in layers])
            self.log_alpha[kind] = nn.Parameter(torch.full(there.shape, float(start)))
            self.register_buffer(f"there_{kind}", there)

    def forward(self) -> dict[str, Tensor]:
        """By kind, gates (layers, heads) in [0, 1]: drawn in training mode, fixed in evaluation mode."""
        return {kind: self._cut(self._share(log_alpha)) for kind, log_alpha in self.log_alpha.items()}

    def penalty(self) -> Tensor:
        """The expected number of gates that are not 0: Σ sigmoid(log α − β log(−γ / ζ)), equation 12."""
        shift = self.temperature * math.log(-self.stretch[0] / self.stretch[1])
        return sum((log_alpha - shift).sigmoid()[self.there(kind)].sum() for kind, log_alpha in self.log_alpha.items())

    def there(self, kind: str) -> Tensor:
        """Which heads of a kind the model had when the gates were made: boolean (layers, heads)."""
        return getattr(self, f"there_{kind}")

    def open_heads(self) -> list[Head]:
        """The heads whose gate is above 0 at evaluation."""
        return [head for head, gate in self._fixed() if gate > 0]

    def closed_heads(self) -> list[Head]:
        """The heads whose gate is 0 at evaluation: ``prune`` them."""
        return [head for head, gate in self._fixed() if gate == 0]

    def extra_repr(self) -> str:
        return f"kinds={self.kinds}, temperature={self.temperature:.3g}, stretch={self.stretch}"

    def _share(self, log_alpha: Tensor) -> Tensor:
        """s in (0, 1), before it is stretched."""
        if not self.training:
            return log_alpha.sigmoid()
        noise = torch.rand_like(log_alpha).clamp(EDGE, 1 - EDGE)
        return ((noise.logit() + log_alpha) / self.temperature).sigmoid()

    def _cut(self, share: Tensor) -> Tensor:
        low, high = self.stretch
        return (share * (high - low) + low).clamp(0, 1)

    @torch.no_grad()
    def _fixed(self) -> list[tuple[Head, float]]:
        """Each head with its gate at evaluation."""
        gates = {kind: self._cut(log_alpha.sigmoid()) for kind, log_alpha in self.log_alpha.items()}
        return [
            (Head(layer, head, kind), float(gates[kind][layer, head]))
            for kind in self.kinds
            for layer, head in self.there(kind).nonzero().tolist()
        ]


def _kinds(known: list[str], kinds: str | Iterable[str] | None) -> list[str]:
    """The kinds asked for, in the order of the model. Raises TypeError or ValueError."""
    if kinds is None:
        return known
    if not isinstance(kinds, str | Iterable):
        raise TypeError(f"kinds must be a list out of {', '.join(known)}, got {kinds!r}")
    asked = [kinds] if isinstance(kinds, str) else list(kinds)
    wrong = [each for each in asked if each not in known]
    if wrong or not asked:
        raise ValueError(f"kinds names {wrong[0] if wrong else 'nothing'!r}: the model has {', '.join(known)}")
    return [kind for kind in known if kind in asked]


def _checked(temperature: float, stretch: tuple[float, float], start: float) -> tuple[float, tuple[float, float]]:
    """Raises TypeError or ValueError for numbers with which gates cannot be exactly 0 and 1."""
    try:
        low, high = (float(each) for each in stretch)
    except (TypeError, ValueError):
        raise TypeError(f"stretch must be two numbers such as {STRETCH}, got {stretch!r}") from None
    if not (-10 <= low <= -0.001 and 1.001 <= high <= 11):
        raise ValueError(f"stretch must reach 0.001 to 10 below 0 and above 1, as {STRETCH} does, got {(low, high)}")
    for name, value, least, most in (("temperature", temperature, 0.01, 10), ("start", start, -20, 20)):
        if not isinstance(value, Real) or isinstance(value, bool):
            raise TypeError(f"{name} must be a number, got {value!r}")
        if not least <= value <= most:
            raise ValueError(f"{name} must be from {least} to {most}, got {value}")
    return float(temperature), (low, high)
