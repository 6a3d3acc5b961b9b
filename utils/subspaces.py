"""Do the heads of a layer share directions? Keep few directions of their products and see what still works.

A head is two products: W_Q W_Kᵀ decides where it looks, W_V W_O what it hands over. Written M = A Bᵀ with A and B of
shape (heads, width, d_head): for "query-key" A holds W_Q and B holds W_K; for "value-output" A holds W_V and B holds
the transpose of W_O.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from utils.architectures import Attention, attentions
from utils.measures import Spectrum, needed_rank

PARTS = ("query-key", "value-output")
WAYS = ("shared", "private", "random")


def factors(model: nn.Module, part: str) -> list[tuple[Tensor, Tensor]]:
    """A and B of each layer, (heads, width, d_head) in float32: the product of a head is A Bᵀ. Biases are left out.

    Raises ValueError for an unknown part and for models whose heads share keys and values, lie in one fused matrix,
    or are of several kinds.
    """
    return [_split(each, part) for each in _plain(model, part)]


def shared_basis(a: Tensor, b: Tensor, directions: int) -> tuple[Tensor, Tensor]:
    """The directions that hold most of all heads' products together: (width, directions) for A's side and for B's.

    a, b: (heads, width, d_head). Columns are orthonormal: the first eigenvectors of Σ_h M_h M_hᵀ, and of Σ_h M_hᵀ M_h.
    """
    bases = []
    for left, right in ((a, b), (b, a)):
        gram = torch.einsum("hwd,hde,hve->wv", left.double(), right.double().mT @ right.double(), left.double())
        bases.append(torch.linalg.eigh(gram)[1].flip(-1)[:, :directions].to(a))
    return bases[0], bases[1]


def shared_energy(a: Tensor, b: Tensor) -> Tensor:
    """Σσ² of all heads' products in A's shared directions, largest first: (heads, width, d_head) twice → (width,).

    Null models: independent Gaussian heads, or ``scattered`` heads, which keep their own spectra.
    """
    gram = torch.einsum("hwd,hde,hve->wv", a.double(), b.double().mT @ b.double(), a.double())
    return torch.linalg.eigvalsh(gram).flip(-1).clamp(min=0)


def scattered(a: Tensor, b: Tensor, seed: int = 0) -> tuple[Tensor, Tensor]:
    """The same heads turned at random: every head keeps its singular values and loses the directions it shares.

    a, b: (heads, width, d_head) → factors of the same shapes. The strict null model of sharing.
    """
    generator = torch.Generator().manual_seed(seed)
    middle = torch.linalg.qr(a.double())[1] @ torch.linalg.qr(b.double())[1].mT
    values = torch.linalg.svdvals(middle)
    turned = [torch.linalg.qr(torch.randn(a.shape, generator=generator, dtype=torch.float64))[0] for _ in range(2)]
    return (turned[0] * values[:, None]).to(a), turned[1].to(b)


def needed_directions(a: Tensor, b: Tensor) -> tuple[float, float, float, float]:
    """How many directions hold 90 % of Σσ²: of one head (mean), of the sum of heads, of the heads side by side; and
    the size of the sum beside its parts, ‖Σ_h M_h‖² / Σ_h ‖M_h‖².

    a, b: (heads, width, d_head). Side by side is [M_1 … M_H], or one under another for the other side: the mean of the
    two. The last number is 1 if the products have nothing to do with each other, more if they add up, less if they
    cancel. Null models as in ``shared_energy``.
    """
    small = torch.linalg.qr(a)[1] @ torch.linalg.qr(b)[1].mT  # the spectrum of A Bᵀ
    products = a @ b.mT
    total = products.sum(0)
    sides = Spectrum(torch.stack([shared_energy(*pair).sqrt() for pair in ((a, b), (b, a))]))
    one, added, beside = (float(needed_rank(each, power=2).double().mean()) for each in (small, total, sides))
    return one, added, beside, float(total.square().sum() / products.square().sum())


@contextmanager
def restricted(model: nn.Module, directions: int, how: str, part: str = "query-key", seed: int = 0) -> Iterator[None]:
    """Within the scope, every layer keeps ``directions`` directions on each side of one part's products.

    how: "shared" keeps the directions that serve all heads best (``shared_basis``), the same for all of them;
    "private" gives each head directions/heads of its own, the best ones of its own product; "random" keeps random
    ones, the same for all heads. 0 directions leave nothing of the product: the floor. Afterwards the weights are what
    they were, bit by bit. Raises ValueError for what does not fit.
    """
    if how not in WAYS:
        raise ValueError(f"how must be one of {', '.join(WAYS)}, got {how!r}")
    found = _plain(model, part)
    if how == "private" and directions % len(found[0].heads):
        raise ValueError(f"{directions} directions cannot be dealt out to {len(found[0].heads)} heads: take a multiple")
    generator = torch.Generator().manual_seed(seed)
    before = [[weight.detach().clone() for weight in _weights(each, part)] for each in found]
    try:
        with torch.no_grad():
            for each in found:
                _keep(each, part, *_kept(*_split(each, part), directions, how, generator))
        yield
    finally:
        with torch.no_grad():
            for each, saved in zip(found, before, strict=True):
                for weight, value in zip(_weights(each, part), saved, strict=True):
                    weight.copy_(value)


@torch.no_grad()
def survival(model: nn.Module, ids: Tensor, directions: int, how: str, part: str, seed: int = 0) -> Tensor:
    """Cosine of each text's embedding under ``restricted`` to that of the whole model: ids (texts, tokens) → (texts,).

    An embedding is the mean of the last states; no padding may be in ``ids``. Null model: 0 directions.
    """
    whole = model(input_ids=ids).last_hidden_state.mean(1)
    with restricted(model, directions, how, part, seed):
        return torch.cosine_similarity(model(input_ids=ids).last_hidden_state.mean(1), whole, dim=-1)


def _kept(a: Tensor, b: Tensor, directions: int, how: str, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """A and B with only the kept directions, (heads, width, d_head) each."""
    if not 0 <= directions <= a.shape[1]:
        raise ValueError(f"directions must be from 0 to {a.shape[1]}, the width of the model, got {directions}")
    if how == "private":
        own = directions // len(a)
        (left, a_small), (right, b_small) = torch.linalg.qr(a), torch.linalg.qr(b)
        u, _, v = torch.linalg.svd(a_small @ b_small.mT)  # A Bᵀ, in the few directions that it has
        u, v = left @ u[:, :, :own], right @ v[:, :own].mT
    elif how == "shared":
        u, v = shared_basis(a, b, directions)
    else:
        u, v = (torch.linalg.qr(torch.randn(a.shape[1], directions, generator=generator))[0].to(a) for _ in "ab")
    return u @ (u.mT @ a), v @ (v.mT @ b)


def _plain(model: nn.Module, part: str) -> list[Attention]:
    if part not in PARTS:
        raise ValueError(f"part must be one of {', '.join(PARTS)}, got {part!r}")
    found = attentions(model)
    kinds = {each.kind for each in found}
    fused = any(each.layout.fused or len(set(each.groups)) < each.all_heads for each in found)
    if len(kinds) > 1 or fused:
        what = f"its attentions are of {len(kinds)} kinds" if len(kinds) > 1 else "its heads share one matrix"
        raise ValueError(f"{type(model).__name__}: {what}; this test is for encoders such as BERT")
    return found


def _weights(attention: Attention, part: str) -> tuple[Tensor, Tensor]:
    """The two weights of a part as stored: (heads · d_head, width), and for the output (width, heads · d_head)."""
    if part == "value-output":
        return attention.value.weight, attention.output.weight
    return attention.query.weight, attention.key.weight


def _split(attention: Attention, part: str) -> tuple[Tensor, Tensor]:
    first, second = (weight.detach().float() for weight in _weights(attention, part))
    second = second.T if part == "value-output" else second
    heads = (len(attention.heads), attention.size)
    return first.unflatten(0, heads).mT, second.unflatten(0, heads).mT


def _keep(attention: Attention, part: str, a: Tensor, b: Tensor) -> None:
    first, second = _weights(attention, part)
    joined = b.mT.flatten(0, 1)
    first.copy_(a.mT.flatten(0, 1))
    second.copy_(joined.T if part == "value-output" else joined)
