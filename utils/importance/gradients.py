"""Scores of heads by the gradients of their gates: one forward pass and two backward passes a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from numbers import Integral
from typing import NamedTuple

import pandas as pd
import torch
from torch import Tensor, nn

from utils.architectures import Attention, attentions, mask_of
from utils.attention.scope import evaluating
from utils.heads.gates import hooked
from utils.heads.running import (
    Batch,
    check_masks,
    checked_batches,
    checked_function,
    checked_seed,
    run,
    texts_of,
    without_inference,
)
from utils.importance.running import checked_value

Function = Callable[[object, Batch], Tensor]


class TextGradients(NamedTuple):
    """Of each text and head (texts, heads): the gradient of its gate, and the query positions it flows through."""

    gradient: Tensor
    active: Tensor


def importance(
    model: nn.Module,
    batches: Iterable[Batch],
    loss: Function,
    *,
    represent: Function | None = None,
    projections: int = 1,
    per_position: bool = False,
    seed: int = 0,
) -> pd.DataFrame:
    """A row a head (kind, layer, head): three scores out of the gradients of gates that multiply the heads.

    absolute: mean over texts of |∂L/∂gate| (Michel et al. 2019, arXiv 1905.10650, equation 2, without their division
    by layer norms). It ranks how sensitive each text's loss is, whichever way: a head that helps one half of the texts
    and harms the other half as much scores high, and removing it changes nothing. So does a head that only harms.
    signed: −mean ∂L/∂gate, the first-order (Taylor) prediction of the change of the mean loss when the head is
    removed: positive, removal hurts. Take it to ask what removal does to a loss that the model was not trained on.
    It is a slope at gate 1: a loss that is flat or curved there misleads it. At the loss of its own training a model
    stands near a minimum, and the mean slope is mostly noise: on the book's translator this order prunes decoder and
    cross heads worse than random ones, encoder heads no better, and ``absolute`` prunes all better
    (data/sweeps/translator_heads.json); on MiniLM as a retriever it is the other way round.
    fisher: mean over texts and ``projections`` random directions z of (z · ∂e/∂gate)², with e the representation of
    the text: an estimate of ‖∂e/∂gate‖², the squared change of the representation. It needs no labels and no sign.
    Take it to ask how far removal moves the outputs. A loss that measures this distance itself is 0, its minimum, at
    the full model, where the first two scores are 0 for every head. Estimates are noisy for few texts: raise
    ``projections`` then (a backward pass each).
    active: mean number of query positions of a text through which the loss reads the head's layer: 1 in the last layer
    of a classifier on [CLS]. With ``per_position`` each text's gradients are divided by it before they are scored, so
    that layers compare by what a position does; without it, by what a head does to the loss.

    loss(outputs, batch): a scalar, the mean over the batch's texts, or one value a text (texts,). The mean over
    batches has the numbers of texts as weights. In a loss that compares texts (contrastive), a text's gradient is what
    the batch's summed loss owes to that text's heads. represent(outputs, batch) -> (texts, features); by default the
    logits (at real positions), or else the mean last_hidden_state of the real tokens. Heads that were removed are
    absent; gates of scopes around the call stay, and scores are those of the gated model. Parameters, their .grad and
    the modes of the modules are not touched. Raises TypeError or ValueError for a loss or representation that does not
    depend on the heads, reads padding, is not finite or has another shape.
    """
    found, loss = attentions(model), checked_function(loss, "loss")
    represent = _default_represent(model, found) if represent is None else checked_function(represent, "represent")
    if not isinstance(projections, Integral) or isinstance(projections, bool) or projections < 1:
        raise ValueError(f"projections must be a whole number from 1 on, got {projections!r}")
    if not any(each.heads for each in found):
        raise ValueError("the model has no head left to score: all were removed")
    if any(each.is_inference() for each in model.parameters()):
        raise ValueError("the model was built in inference mode and has no gradients: load it outside of it")
    batches, generator = checked_batches(batches), torch.Generator().manual_seed(checked_seed(seed))
    with evaluating(model), torch.inference_mode(False), torch.enable_grad():
        sums, texts = torch.zeros(4, sum(len(each.heads) for each in found), dtype=torch.float64), 0
        for number, batch in enumerate(batches):
            of_loss, *others = _gradients(model, found, batch, number, loss, represent, projections, generator)
            signed = _scaled(of_loss, per_position)
            fisher = torch.stack([_scaled(each, per_position).square() for each in others]).mean(0)
            sums += torch.stack([each.sum(0) for each in (signed.abs(), -signed, fisher, of_loss.active)])
            texts += len(signed)
    frame = pd.DataFrame([(each.kind, each.layer, head) for each in found for head in each.heads])
    frame.columns = ["kind", "layer", "head"]
    return frame.assign(**dict(zip(("absolute", "signed", "fisher", "active"), (sums / texts).numpy(), strict=True)))


def _gradients(
    model: nn.Module,
    found: list[Attention],
    batch: Batch,
    number: int,
    loss: Function,
    represent: Function,
    projections: int,
    generator: torch.Generator,
) -> list[TextGradients]:
    """Gradients of the loss, then of each random projection of the representation, for one batch."""
    texts = texts_of(batch, number)
    batch = without_inference(batch)
    check_masks(model, found, batch, number)
    gates: dict[str, Tensor] = {}
    with hooked((each, _gate(each.name, gates)) for each in found):
        outputs = run(model, batch, number)
    value = checked_value(loss(outputs, batch), texts, "loss", number)
    features = _checked_features(represent(outputs, batch), texts, number)
    targets = [("loss", value.sum() if value.ndim else value * texts)]
    for _ in range(projections):
        z = torch.randn(features.shape, generator=generator).to(features)
        targets.append(("representation", (z * features).sum()))
    left, results = len(targets), []
    for name, target in targets:
        left -= 1
        if not target.requires_grad:
            raise ValueError(
                f"the {name} carries no gradient: compute it from outputs, without no_grad, .detach() or .item()"
            )
        found_gradients = torch.autograd.grad(target, list(gates.values()), retain_graph=left > 0, allow_unused=True)
        if all(each is None for each in found_gradients):
            raise ValueError(f"the {name} does not depend on any head: compute it from outputs")
        by_name = dict(zip(gates, found_gradients, strict=True))
        parts = [_of_texts(model, each, by_name.get(each.name), batch, number, texts, name) for each in found]
        results.append(TextGradients(*(torch.cat(each, dim=1) for each in zip(*parts, strict=True))))
    return results


def _gate(name: str, gates: dict[str, Tensor]) -> Callable[[Tensor], Tensor]:
    """Multiply by a gate of 1 for every text, position and head, and keep the gates (texts, tokens, heads)."""

    def change(z: Tensor) -> Tensor:
        if name not in gates:
            gates[name] = torch.ones(z.shape[:-1], dtype=z.dtype, device=z.device, requires_grad=True)
        return z * gates[name][..., None]

    return change


def _of_texts(
    model: nn.Module, attention: Attention, gradient: Tensor | None, batch: Batch, number: int, texts: int, name: str
) -> TextGradients:
    """Gradients (texts, tokens, heads) of one attention, summed over positions."""
    if gradient is None:
        nothing = torch.zeros(texts, len(attention.heads), dtype=torch.float64)
        return TextGradients(nothing, nothing)
    gradient = gradient.double().cpu()
    if not gradient.isfinite().all():
        raise ValueError(f"the gradient of the {name} of batch {number} is not finite")
    reached, mask = (gradient != 0).any(-1), mask_of(attention, batch)
    if mask is not None and mask.shape == reached.shape and (reached & ~mask.cpu()).any():
        raise ValueError(
            f"the {name} of batch {number} reads padding: leave padded positions out of its mean, "
            "or give them the label -100"
        )
    return TextGradients(gradient.sum(1), reached.sum(1, keepdim=True).double().expand(-1, gradient.shape[2]))


def _scaled(found: TextGradients, per_position: bool) -> Tensor:
    return found.gradient / found.active.clamp(min=1) if per_position else found.gradient


def _default_represent(model: nn.Module, found: list[Attention]) -> Function:
    """Logits at real positions, or the mean of the last hidden state over real tokens: (texts, features)."""

    def represent(outputs: object, batch: Batch) -> Tensor:
        for name in ("logits", "last_hidden_state"):
            states = getattr(outputs, name, None)
            if isinstance(states, Tensor) and states.ndim in (2, 3):
                break
        else:
            raise ValueError(
                f"the outputs of {type(model).__name__} have neither logits nor last_hidden_state: "
                "pass represent=a function of (outputs, batch) that returns (texts, features)"
            )
        mask = mask_of(found[-1], batch)  # of the decoder, where there are two stacks
        mask = torch.ones(states.shape[:2]) if mask is None or mask.shape != states.shape[:2] else mask
        if states.ndim == 3:
            states = states * mask[..., None].to(states)
        if name == "logits":
            return states.flatten(1)
        return states.sum(1) / mask.sum(1, keepdim=True).to(states)

    return represent


def _checked_features(features: object, texts: int, number: int) -> Tensor:
    if not isinstance(features, Tensor):
        raise TypeError(f"represent must return a tensor (texts, features), got {type(features).__name__}")
    if features.ndim != 2 or len(features) != texts or not features.is_floating_point():
        raise ValueError(
            f"represent must return numbers of the shape ({texts}, features), "
            f"got {features.dtype} of the shape {tuple(features.shape)}"
        )
    if not features.isfinite().all():
        raise ValueError(f"the representation of batch {number} is not finite")
    return features
