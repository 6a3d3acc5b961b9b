"""Train Hard-Concrete gates, and as much of the model beside them as is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from numbers import Integral, Real

import pandas as pd
import torch
from torch import Tensor, nn
from tqdm.auto import tqdm

from utils.heads import gated
from utils.heads.running import Batch, checked_batches, checked_function, checked_seed, run, texts_of, without_inference
from utils.pruning.gates import HardConcreteGates

ALL = "all"
LARGEST = 1e12  # the square of a gradient is still a float32


def fit_gates(
    model: nn.Module,
    batches: Iterable[Batch],
    loss: Callable[[object, Batch], Tensor],
    *,
    penalty: float,
    steps: int,
    gates: HardConcreteGates | None = None,
    kinds: str | Iterable[str] | None = None,
    frozen: str | Iterable[str] = ALL,
    gate_rate: float = 0.1,
    rate: float = 5e-4,
    dropout: bool = False,
    patience: int | None = None,
    seed: int = 0,
    progress: bool = False,
) -> tuple[HardConcreteGates, pd.DataFrame]:
    """Minimise loss + penalty · (expected number of open gates) by Adam; returns the gates and a row a step.

    batches: run through in a random order, again and again; each step draws the gates once (Louizos et al. 2018,
    section 2). loss: ``(outputs, batch) -> Tensor``, a scalar or one value a text. penalty: what an open head
    costs, in units of the loss. kinds: as in ``HardConcreteGates``, when no ``gates`` are given to go on with.
    frozen: "all" weights of the model (only gates are trained), or those whose names begin so: ["decoder"] tunes the
    encoder with the decoder fixed, as Voita et al. 2019 (section 6) do; () freezes none. Weights are tuned **in
    place**: pass a copy to keep them. gate_rate, rate: learning rates of gates and weights. dropout: run the model in
    training mode. patience: stop when every gate has been 0 or 1 at evaluation, the same, for so many steps.

    Frame: step; loss (of that step's draw); expected (gates above 0, expected, after the step) and open (heads whose
    gate is above 0 at evaluation); open_<kind>. The gates come back in evaluation mode: then
    ``prune(model, gates.closed_heads())``, or ``gated(model, gates())``. The model's ``requires_grad`` flags,
    gradients and modes are afterwards as before, also after an error; the global random state too.
    Raises TypeError or ValueError for arguments that do not fit and for a loss that is not finite.
    """
    batches, loss, seed = checked_batches(batches), checked_function(loss, "loss"), checked_seed(seed)
    for number, batch in enumerate(batches):
        texts_of(batch, number)
    _check(penalty, steps, patience, rate, gate_rate)
    with torch.inference_mode(False):
        gates = _gates(model, gates, kinds)
        tuned = _tuned(model, frozen)
        groups = [{"params": list(gates.parameters()), "lr": gate_rate}]
        groups += [{"params": tuned, "lr": rate}] if tuned else []
        optimizer = torch.optim.Adam(groups)
    rows, settled, before = [], 0, None
    with torch.random.fork_rng(devices=[]), _fitting(model, gates, tuned, dropout):
        torch.manual_seed(seed)
        drawn = zip(tqdm(range(1, steps + 1), disable=not progress), _endless(batches), strict=False)
        for step, (number, batch) in drawn:
            optimizer.zero_grad(set_to_none=True)
            with gated(model, gates()):  # the way back too: with gradient checkpointing it runs layers again
                value = _scalar(loss(run(model, batch, number), batch), step)
                (value + penalty * gates.penalty()).backward()
            optimizer.step()
            state = _state(gates)
            rows.append({"step": step, "loss": float(value.detach()), **_counts(gates, state)})
            settled = settled + 1 if _decided(gates, state) and state == before else 0
            before = state
            if patience is not None and settled >= patience:
                break
    return gates, pd.DataFrame(rows)


def _gates(model: nn.Module, gates: HardConcreteGates | None, kinds: str | Iterable[str] | None) -> HardConcreteGates:
    """The gates to train. Raises TypeError or ValueError for a model whose tensors cannot be trained with."""
    if any(each.is_inference() for each in model.parameters()):
        raise ValueError("the model was built in inference mode and has no gradients: load it outside of it")
    if gates is None:
        return HardConcreteGates(model, kinds)
    if not isinstance(gates, HardConcreteGates):
        raise TypeError(f"gates must be HardConcreteGates, got {type(gates).__name__}")
    if kinds is not None:
        raise ValueError("gates and kinds are both given: the gates know their kinds, leave kinds out")
    return gates


State = dict[str, list[list[float]]]


def _state(gates: HardConcreteGates) -> State:
    """The gates at evaluation."""
    gates.eval()
    with torch.no_grad():
        state = {kind: gate.tolist() for kind, gate in gates().items()}
    gates.train()
    return state


def _counts(gates: HardConcreteGates, state: State) -> dict[str, float]:
    is_open = {kind: int((torch.tensor(gate)[gates.there(kind)] > 0).sum()) for kind, gate in state.items()}
    counts = {f"open_{kind}": number for kind, number in is_open.items()}
    return {"expected": float(gates.penalty().detach()), "open": sum(is_open.values()), **counts}


def _decided(gates: HardConcreteGates, state: State) -> bool:
    """True if every gate is 0 or 1 at evaluation."""
    values = torch.cat([torch.tensor(gate)[gates.there(kind)] for kind, gate in state.items()])
    return bool(((values == 0) | (values == 1)).all())


def _tuned(model: nn.Module, frozen: str | Iterable[str]) -> list[nn.Parameter]:
    """The parameters to train: not frozen by name, nor by the caller before."""
    if isinstance(frozen, str) and frozen == ALL:
        return []
    if isinstance(frozen, str) or not isinstance(frozen, Iterable):
        raise TypeError(f'frozen must be "all" or a list of beginnings of names such as ["decoder"], got {frozen!r}')
    starts, named = list(frozen), dict(model.named_parameters())
    unknown = [each for each in starts if not isinstance(each, str) or not any(_begins(name, each) for name in named)]
    if unknown:
        tops = ", ".join(dict.fromkeys(name.partition(".")[0] for name in named))
        raise ValueError(f"frozen names {unknown[0]!r}, but no weight begins so: the model has {tops}")
    return [
        tensor
        for name, tensor in named.items()
        if tensor.requires_grad and not any(_begins(name, each) for each in starts)
    ]


def _begins(name: str, start: str) -> bool:
    return name == start or name.startswith(start.rstrip(".") + ".")


@contextmanager
def _fitting(model: nn.Module, gates: HardConcreteGates, tuned: list[nn.Parameter], dropout: bool) -> Iterator[None]:
    """Modes and flags for training; afterwards the model's own again, and the gates in evaluation mode."""
    modes = [(module, module.training) for module in model.modules()]
    flags = [(tensor, tensor.requires_grad, tensor.grad) for tensor in model.parameters()]
    wanted = {id(tensor) for tensor in tuned}
    try:
        model.train(dropout)
        gates.train()
        for tensor, _, _ in flags:
            tensor.grad = None
            tensor.requires_grad_(id(tensor) in wanted)
        with torch.inference_mode(False), torch.enable_grad():
            yield
    finally:
        for module, mode in modes:
            module.training = mode
        for tensor, flag, gradient in flags:
            tensor.requires_grad_(flag)
            tensor.grad = gradient
        gates.eval()


def _endless(batches: list[Batch]) -> Iterator[tuple[int, Batch]]:
    """Numbers and batches, again and again in another order."""
    batches = [without_inference(batch) for batch in batches]
    while True:
        for index in torch.randperm(len(batches)).tolist():
            yield index, batches[index]


def _scalar(value: object, step: int) -> Tensor:
    if not isinstance(value, Tensor) or value.ndim > 1 or not value.requires_grad:
        got = f"the shape {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
        raise TypeError(f"loss must return a tensor with a gradient, a scalar or one value a text, got {got}")
    value = value.mean()
    if not value.isfinite():
        raise ValueError(
            f"the loss is {float(value.detach())} at step {step}: lower rate or gate_rate, or look at the batches"
        )
    return value


def _check(penalty: float, steps: int, patience: int | None, *rates: float) -> None:
    whole = {"steps": steps} | ({} if patience is None else {"patience": patience})
    for name, value in whole.items():
        if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
            raise ValueError(f"{name} must be a whole number from 1 on, got {value!r}")
    numbers = {"penalty": penalty, "rate": rates[0], "gate_rate": rates[1]}
    for name, value in numbers.items():
        if not isinstance(value, Real) or isinstance(value, bool) or not 0 <= value <= LARGEST:
            raise ValueError(f"{name} must be a finite number from 0 to {LARGEST:.0e}, got {value!r}")
