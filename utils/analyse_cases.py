"""Heads made up for the checks of the assessment "Analyse": maps of every role, a layer with twins, given spectra."""

from __future__ import annotations

import torch
from torch import Tensor

N = 24  # tokens
SPECTRA = {
    (10.0, 3.0, 1.0, 0.1): 0.9,
    (4.0, 3.0, 2.0, 0.5): 0.9,
    (5.0, 5.0, 5.0, 5.0): 0.45,
    (6.0, 0.0, 0.0, 0.0): 0.999,
}
"""Singular values of a product → the share to be kept."""


def shifted(back: int) -> Tensor:
    """A map in which every query reads ``back`` tokens back, and those without such a key the first token."""
    return torch.eye(N)[(torch.arange(N) - back).clamp(min=0)]


def heads_by_role() -> dict[str, tuple[Tensor, str]]:
    """What a head does → (maps (texts, n, n), its role by the rules)."""
    even = torch.ones(N, N).tril() / torch.arange(1, N + 1)[:, None]
    first, own = torch.eye(N)[torch.zeros(N).long()], torch.eye(N)
    draw = torch.Generator().manual_seed(0)
    sharp = [torch.eye(N)[[int(torch.randint(i + 1, (), generator=draw)) for i in range(N)]] for _ in "ab"]
    found = {
        "each query reads the token before": ([shifted(1)], "offset -1"),
        "each query reads the token three back": ([shifted(3)], "offset -3"),
        "each query reads itself": ([own], "offset 0"),
        "10 % of each row lie on the token before, the rest evenly": ([0.1 * shifted(1) + 0.9 * even], "offset -1"),
        "95 % of each row lie on the first token": ([0.95 * first + 0.05 * own], "first token"),
        "60 % of each row lie on the first token, 40 % on itself": ([0.6 * first + 0.4 * own], "content"),
        "89.7 % of each row lie on the first token, the rest on itself": ([0.897 * first + 0.103 * own], "content"),
        "each row is even": ([even], "diffuse"),
        "each row has one sharp place, another one in each text": (sharp, "content"),
        "one text reads one back, the other two back": ([shifted(1), shifted(2)], "content"),
    }
    return {what: (torch.stack(maps), role) for what, (maps, role) in found.items()}


def layer_with_twins() -> tuple[Tensor, Tensor, Tensor]:
    """Maps (heads, texts, n, n), values (heads, width, d), outputs (heads, d, width) of twelve heads.

    Beside head 0: 1 is the same in another basis and half as loud; 2 reads the same and says other things; 3 says the
    same of other tokens; 5 reads the same and takes away what 0 says. 7 is 6 with both signs turned. 8 to 11 say what
    4 says: 8 reads something else in the last text, 9 has 4's maps in other texts, 10 has a map at a distance of 0.04,
    11 reads the same tokens first, and less of the others.
    """
    draw = torch.Generator().manual_seed(1)
    scores = 3 * torch.randn(4, 3, N, N, generator=draw)
    maps = scores.masked_fill(~torch.ones(N, N).tril().bool(), -torch.inf).softmax(-1)[[0, 0, 0, 1, 2, 0, 3, 3]]
    values, outputs = torch.randn(8, 20, 4, generator=draw), torch.randn(8, 4, 20, generator=draw)
    turn = torch.linalg.qr(torch.randn(4, 4, generator=draw))[0]
    values[1], outputs[1] = values[0] @ turn, turn.T @ outputs[0] / 2
    values[3], outputs[3] = values[0], outputs[0]
    values[5], outputs[5] = -values[0], outputs[0]
    values[7], outputs[7] = -values[6], -outputs[6]
    values, outputs = (torch.cat([each, each[[4] * 4]]) for each in (values, outputs))
    return torch.cat([maps, _near(maps[4], maps[6])]), values, outputs


def _near(own: Tensor, other: Tensor) -> Tensor:
    """Four maps (texts, n, n) that are nearly the given one, each in another way."""
    part = 0.04 / float((own - other).abs().sum(-1).mean() / 2)
    sharper = own.pow(3) / own.pow(3).sum(-1, keepdim=True)
    return torch.stack([torch.cat([own[:2], other[2:]]), own.roll(1, 0), (1 - part) * own + part * other, sharper])


def head_with(spectrum: tuple[float, ...], seed: int = 2) -> tuple[Tensor, Tensor]:
    """W_V (20, 4) and W_O (4, 20) whose product has these four singular values; alone they have others."""
    draw = torch.Generator().manual_seed(seed)
    left, right = (torch.linalg.qr(torch.randn(20, 4, generator=draw, dtype=torch.float64))[0] for _ in "ab")
    mix = torch.randn(4, 4, generator=draw, dtype=torch.float64)
    inner = torch.linalg.solve(mix, torch.tensor(spectrum, dtype=torch.float64).diag())
    return (left @ mix).float(), (inner @ right.T).float()


def loss_with_twins(gone: set[str]) -> float:
    """Five heads: a and b are twins, d costs nothing. The order is d, a, c, e, b; a and b may be exchanged."""
    twins = 0.02 * len(gone & {"a", "b"}) + 2.0 * ({"a", "b"} <= gone)
    return 1.0 + twins + 0.3 * ("c" in gone) + 0.9 * ("e" in gone)


def loss_by_cover(gone: set[str]) -> float:
    """Five heads, each of which serves some words: a word costs if nobody serves it. The order is t, s, u, r, q.

    Alone s does most, and q and r together do what it does.
    """
    serve = {"q": "123", "r": "456", "s": "23457", "t": "", "u": "8"}
    cost = dict(zip("12345678", (1.0, 1.0, 1.0, 0.9, 0.9, 0.9, 0.01, 1.1), strict=True))
    served = {word for head, words in serve.items() if head not in gone for word in words}
    return 1.0 + sum(value for word, value in cost.items() if word not in served)
