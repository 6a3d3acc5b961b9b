"""What the assessment "Analyse" asks of each exercise: an AssertionError says what went wrong, and by how much.

Nothing about the unknown model is stored here. Its duplicates and effects are measured when a check runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache
from itertools import combinations

import torch
from torch import Tensor

from utils import analyse
from utils.analyse import FLOOR, SAME_MAP, SAME_OUTPUT, SHARE, name
from utils.heads import Head, heads_of
from utils.measures import Spectrum, needed_rank
from utils.pruning import prune

N = 24  # tokens of the maps that are made up
WORDS = range(80, 301)
NAMED = re.compile(r"\bL(\d)H(\d)\b")
NATS = re.compile(r"(\d+\.\d+)\s*nats?\b")


# N.1


def _shifted(back: int) -> Tensor:
    """A map in which every query reads ``back`` tokens back, those without such a key the first."""
    return torch.eye(N)[(torch.arange(N) - back).clamp(min=0)]


def _made_up() -> dict[str, tuple[Tensor, str]]:
    """name → (maps (texts, n, n) of a causal head, its role by the rules)."""
    uniform = torch.ones(N, N).tril() / torch.arange(1, N + 1)[:, None]
    first = torch.zeros(N, N)
    first[:, 0] = 1
    draw = torch.Generator().manual_seed(0)
    sharp = torch.stack([torch.eye(N)[[int(torch.randint(i + 1, (), generator=draw)) for i in range(N)]] for _ in "ab"])
    return {
        "each query reads the token before": (_shifted(1)[None], "offset -1"),
        "each query reads the token three back": (_shifted(3)[None], "offset -3"),
        "each query reads itself": (torch.eye(N)[None], "offset 0"),
        "30 % of each row lie on the token before, the rest evenly": (
            (0.3 * _shifted(1) + 0.7 * uniform)[None],
            "offset -1",
        ),
        "95 % of each row lie on the first token": ((0.95 * first + 0.05 * torch.eye(N))[None], "first token"),
        "60 % of each row lie on the first token, 40 % on itself": (
            (0.6 * first + 0.4 * torch.eye(N))[None],
            "content",
        ),
        "each row is even": (uniform[None], "diffuse"),
        "each row has one sharp place, another one in each text": (sharp, "content"),
        "one text reads one back, the other two back": (torch.stack([_shifted(1), _shifted(2)]), "content"),
    }


def role_by_rules(maps: Tensor) -> str:
    """The role of a causal head by the rules of the page: maps (texts, n, n)."""
    maps = maps.double()
    n = maps.shape[-1]
    if maps[:, 1:, 0].mean() >= SHARE:
        return "first token"
    found = maps.argmax(-1) - torch.arange(n)
    shares = {back: float((found[:, back:] == -back).double().mean()) for back in range(n // 2)}
    best = max(shares, key=shares.__getitem__)
    if shares[best] >= SHARE:
        return f"offset {-best}"
    even = torch.special.entr(maps[:, 1:]).sum(-1) / torch.arange(2, n + 1).log()
    return "diffuse" if even.mean() >= SHARE else "content"


def gives_roles_by_rule(attempt: Callable) -> None:
    """N.1: attempt(maps (texts, n, n)) → "first token", "offset −k", "diffuse" or "content"."""
    for what, (maps, role) in _made_up().items():
        found = attempt(maps.clone())
        assert isinstance(found, str), f"return the role as a text, not {type(found).__name__}"
        if (found := found.replace("−", "-")) != role:
            _explain_role(what, found, role)
    for each, maps in zip(heads_of(_model()), _maps("judge").flatten(0, 1), strict=True):
        found, role = attempt(maps.clone()).replace("−", "-"), role_by_rules(maps)
        assert found == role, (
            f"right on the maps made up; on 96 notes that you have not seen {name(each)} is {role!r} by the rules, you "
            f"say {found!r}"
        )


def _explain_role(what: str, found: str, role: str) -> None:
    case = f"{what}: "
    turned = role.startswith("offset -") and found.replace("+", "") == role.replace("-", "")
    assert not turned, case + f"offset = key − query, so what lies before has a minus: {role!r}, not {found!r}"
    if role.startswith("offset"):
        assert found != "first token", (
            case + "only the first rows read token 0 here: average over all queries from 1 on"
        )
        assert found != "content" or "30 %" in what, (
            case + "it has one offset; leave out the queries that have no key there, which can only read elsewhere"
        )
        assert found not in ("content", "diffuse"), (
            case + "count the rows whose greatest weight lies at the offset; you averaged the weights, or asked first "
            "whether rows are diffuse"
        )
    if role == "first token":
        assert found != "offset 0", case + "leave out query 0, which can read nothing else"
    if role == "diffuse":
        assert found != "content", (
            case + "its entropy is ln(i + 1) in row i, not ln n: compare with what the row can have"
        )
        assert found != "first token", case + "that is argmax, which takes the first of equals: take the mean weight"
    if role == "content":
        assert found != "first token", (
            case + f"the mean weight on the first token is 0.6, below {SHARE}: do not count rows"
        )
        assert found not in ("offset -1", "offset -2"), case + "an offset must hold over all texts, not in one of them"
    raise AssertionError(case + f"the role is {role!r}, you say {found!r}")


# N.2


def _layer_made_up() -> tuple[Tensor, Tensor, Tensor, dict[str, tuple[int, int]]]:
    """Maps (heads, texts, n, n), values (heads, width, d), outputs (heads, d, width), and pairs by what they are."""
    draw = torch.Generator().manual_seed(1)
    maps = torch.randn(4, 3, N, N, generator=draw).mul(3).masked_fill(~torch.ones(N, N).tril().bool(), -torch.inf)
    maps = maps.softmax(-1)[[0, 0, 0, 1, 2, 0, 3, 3]]
    values, outputs = torch.randn(8, 20, 4, generator=draw), torch.randn(8, 4, 20, generator=draw)
    turn = torch.linalg.qr(torch.randn(4, 4, generator=draw))[0]
    values[1], outputs[1] = values[0] @ turn, turn.T @ outputs[0] / 2  # the twin in another basis, half as loud
    values[3], outputs[3] = values[0], outputs[0]  # the same output, other maps
    values[5], outputs[5] = values[0], -outputs[0]  # takes away what 0 says
    values[7], outputs[7] = -values[6], -outputs[6]  # two signs that cancel
    return (
        maps,
        values,
        outputs,
        {"turned": (0, 1), "values": (0, 2), "maps": (0, 3), "against": (0, 5), "sign": (6, 7)},
    )


def finds_duplicates(attempt: Callable) -> None:
    """N.2: attempt(maps (heads, texts, n, n), values (heads, width, d), outputs (heads, d, width)) → pairs (i, j)."""
    maps, values, outputs, pairs = _layer_made_up()
    found = _pairs(attempt(maps, values, outputs))
    assert pairs["values"] not in found, (
        "(0, 2) of the layer made up have equal maps and other values: they read the same tokens and say other things, "
        "so neither replaces the other. Compare W_V W_O as well"
    )
    assert pairs["maps"] not in found, "(0, 3) have the same W_V W_O and other maps: compare the maps as well"
    assert pairs["against"] not in found, "(0, 5) have products of cosine −1: one takes away what the other says"
    assert pairs["turned"] in found, (
        "(0, 1) are missing: the same head in another basis and half as loud. W_V alone depends on the basis, and a "
        "distance of products on their size: take the cosine of the products W_V W_O"
    )
    assert pairs["sign"] in found, (
        "(6, 7) are missing: W_V and W_O both have the other sign, so the product is the same"
    )
    assert found == {(0, 1), (6, 7)}, f"of the layer made up (0, 1) and (6, 7) are duplicates, you say {sorted(found)}"
    model, judged = _model(), _maps("judge")
    for layer, (a, b) in enumerate(analyse.factors(model, "value-output")):
        found = {
            (Head(layer, i, "decoder"), Head(layer, j, "decoder")) for i, j in _pairs(attempt(judged[layer], a, b.mT))
        }
        truth = {pair for pair in duplicates() if pair[0].layer == layer}
        for pair in sorted(found ^ truth):
            _explain_pair(pair, pair in found)


def _explain_pair(pair: tuple[Head, Head], said: bool) -> None:
    distance, cosine = compared()[pair]
    words = f"{name(pair[0])} and {name(pair[1])}: their maps differ by {distance:.2f}, their W_V W_O have cosine {cosine:.2f}"
    raise AssertionError(f"{words}, so they are {'no duplicates' if said else 'duplicates, which you miss'}")


def _pairs(found: object) -> set[tuple[int, int]]:
    assert isinstance(found, list | set | tuple | frozenset), (
        f"return a list of pairs (i, j), not {type(found).__name__}"
    )
    pairs = [tuple(int(each) for each in pair) if hasattr(pair, "__len__") else (pair,) for pair in found]
    assert all(len(pair) == 2 for pair in pairs), "return pairs of heads, (i, j)"
    assert all(i != j for i, j in pairs), "a head is no duplicate of itself: leave out pairs (i, i)"
    return {(min(pair), max(pair)) for pair in pairs}


# N.3


def counts_ranks(attempt: Callable) -> None:
    """N.3: attempt(value (width, d), output (d, width), share) → least rank of W_V W_O that holds the share of Σσ²."""
    draw = torch.Generator().manual_seed(2)
    basis = [torch.linalg.qr(torch.randn(20, 4, generator=draw, dtype=torch.float64))[0] for _ in "ab"]

    def split(values: list[float]) -> tuple[Tensor, Tensor]:
        """A head whose product has these singular values, and whose W_V and W_O alone have others."""
        mix = torch.randn(4, 4, generator=draw, dtype=torch.float64)
        return (basis[0] @ mix).float(), (
            mix.inverse() @ torch.tensor(values, dtype=torch.float64).diag() @ basis[1].T
        ).float()

    cases = {
        (10.0, 3.0, 1.0, 0.1): 0.9,
        (4.0, 3.0, 2.0, 1.0): 0.9,
        (5.0, 5.0, 5.0, 5.0): 0.99,
        (6.0, 0.0, 0.0, 0.0): 0.999,
    }
    for values, share in cases.items():
        value, output = split(list(values))
        found, right = attempt(value, output, share), int(needed_rank(Spectrum(torch.tensor(values)), share, 2))
        if found != right:
            _explain_rank(found, right, values, share, value, output)
    found = attempt(value, torch.zeros_like(output), 0.9)
    assert found == 0, f"a head whose W_O is zero needs rank 0, you say {found}"


def _explain_rank(found: object, right: int, values: tuple, share: float, value: Tensor, output: Tensor) -> None:
    case = f"σ = {', '.join(f'{each:g}' for each in values)}, share {share:g}: "
    assert not isinstance(found, bool) and hasattr(found, "__index__"), f"return a whole number, not {found!r}"
    assert found != int(needed_rank(Spectrum(torch.tensor(values)), share, 1)), (
        case + f"{found} holds the share of Σσ, not of Σσ²"
    )
    assert found != int(needed_rank(value, share, 2)), (
        case + f"{found} is right for W_V alone: take the product W_V W_O"
    )
    assert found != int(needed_rank(output, share, 2)), (
        case + f"{found} is right for W_O alone: take the product W_V W_O"
    )
    assert found != right - 1, case + f"{found} values hold less than the share: one more"
    raise AssertionError(case + f"expected {right}, got {found}")


# N.4


def orders_by_measuring_again(attempt: Callable) -> None:
    """N.4: attempt(loss_without, heads) → heads in the order of removal, measured again after each."""
    heads = ["a", "b", "c", "d", "e"]
    alone = {"c": 0.3, "d": 0.0, "e": 0.9}

    def loss_without(gone: Iterable) -> float:
        gone = set(gone)
        assert gone <= set(heads), (
            f"loss_without was asked for {sorted(map(str, gone))}: give names of heads, as a list"
        )
        twins = 0.02 * len(gone & {"a", "b"}) + 2.0 * ({"a", "b"} <= gone)
        return 1.0 + twins + sum(alone.get(each, 0.0) for each in gone)

    found = attempt(loss_without, list(heads))
    assert isinstance(found, list | tuple), f"return the heads as a list, not {type(found).__name__}"
    found = list(found)
    assert sorted(found) == heads, (
        f"every head once, please: of {', '.join(heads)} you return {', '.join(map(str, found))}"
    )
    assert found[0] != "e", "the head that costs most goes first in your order: the cheapest goes first"
    assert found != ["d", "a", "b", "c", "e"], (
        "you sorted by what each head costs alone. a and b are twins: each alone costs 0.02, both cost 2.04. Measure "
        "again after each removal"
    )
    assert found in (["d", "a", "c", "e", "b"], ["d", "b", "c", "e", "a"]), (
        f"expected d, a, c, e, b (or b for a): at each step the head with which the loss rises least; you: {', '.join(found)}"
    )


# N.5


def recommends_within_the_floor(attempt: Callable) -> None:
    """N.5: attempt() → heads to prune. They are pruned, and the loss on the notes to judge by is measured."""
    gone = _heads(attempt())
    rise = cost(gone)
    both = [pair for pair in duplicates() if set(pair) <= set(gone)]
    if rise > FLOOR:
        words = f"pruned, the model loses {rise:.3f} nats a token, {rise - FLOOR:.3f} more than the {FLOOR} allowed"
        for pair in both:
            again = cost([each for each in gone if each != pair[0]])
            assert again > rise - 0.1, (
                f"{words}. {name(pair[0])} and {name(pair[1])} are duplicates: either may go, not both (with one of them back "
                f"the loss is {again:.3f} above the whole model)"
            )
        worst = max(gone, key=lambda each: cost([each]))
        role = role_by_rules(_maps("judge")[worst.layer, worst.head])
        said = {"first token": "looks like a sink, but reads something there", "diffuse": "reads evenly, and is needed"}
        reason = f". {name(worst)} ({role}) {said.get(role, 'is needed')}: without it alone {cost([worst]):.3f}"
        raise AssertionError(words + (reason if cost([worst]) > FLOOR else ". No single head does it: put some back"))
    left = [each for each in heads_of(_model()) if each not in gone]
    more = {each: cost([*gone, each]) for each in left}
    best = min(more, key=more.__getitem__)
    assert more[best] > FLOOR, (
        f"it costs {rise:.3f} nats, within the floor, and {name(best)} may go as well: then it costs {more[best]:.3f}"
    )


def _heads(found: object) -> list[Head]:
    assert isinstance(found, list | set | tuple | frozenset), (
        f"return a list of (layer, head), not {type(found).__name__}"
    )
    there = set(heads_of(_model()))
    heads = []
    for each in found:
        assert isinstance(each, tuple | list) and len(each) in (2, 3), f"a head is (layer, head), not {each!r}"
        heads.append(Head(int(each[0]), int(each[1]), "decoder"))
        assert heads[-1] in there, f"{each!r} does not exist: layers 0 and 1 have heads 0 to 7"
    return list(dict.fromkeys(heads))


# N.6


def says_what_was_measured(attempt: Callable) -> None:
    """N.6: attempt() → (heads pruned, text). The text names heads that are what it says, and both losses."""
    found = attempt()
    assert isinstance(found, tuple | list) and len(found) == 2, "return two things: the heads that you prune, the text"
    gone, text = _heads(found[0]), found[1]
    assert isinstance(text, str), f"the text is of type {type(text).__name__}: write sentences"
    words = len(text.split())
    assert words in WORDS, f"your text has {words} words: between {WORDS.start} and {WORDS.stop - 1}, please"
    rise = cost(gone)
    assert rise <= FLOOR, f"your heads cost {rise:.3f} nats, more than {FLOOR}: use what passed Exercise N.5"
    named = {Head(int(layer), int(number), "decoder") for layer, number in NAMED.findall(text)}
    assert named, "name heads as L0H3 (layer 0, head 3)"
    assert named <= set(heads_of(_model())), f"{name(sorted(named - set(heads_of(_model())))[0])} does not exist"
    assert any(set(pair) <= named for pair in duplicates()), "name both heads of a pair of duplicates"
    assert any(cost([each]) > FLOOR for each in named), (
        "name a head that is needed: without it alone the floor is missed"
    )
    assert any(cost([each]) < FLOOR / 10 for each in named & set(gone)), (
        "name a head that you prune and that does nothing"
    )
    said = [float(number) for number in NATS.findall(text)]
    for what, value in {"of the whole model": whole(), "of the pruned model": whole() + rise}.items():
        assert any(abs(each - value) < 0.006 for each in said), (
            f"the loss {what} on the notes to judge by is {value:.2f} nats: your text does not say it (in nats, to 0.01)"
        )
    assert re.search(r"untrained|random|null|chance", text, re.IGNORECASE), (
        "say beside one number what a model with random weights, or chance, gives"
    )


# Measured on the model, once.


@cache
def _model():
    return analyse.unknown().model


@cache
def _batch(split: str) -> dict[str, Tensor]:
    return analyse.batch_of(analyse.unknown().tokenizer, analyse.notes(split))


@cache
def _maps(split: str) -> Tensor:
    return analyse.maps_of(_model(), _batch(split))


@cache
def whole() -> float:
    """Nats a token of the whole model on the notes to judge by."""
    return analyse.loss(_model(), _batch("judge"))


@cache
def _cost(gone: frozenset[Head]) -> float:
    return analyse.loss(prune(_model(), gone), _batch("judge")) - whole()


def cost(gone: Iterable[Head]) -> float:
    """How much the loss rises on the notes to judge by when heads are pruned, in nats a token."""
    return _cost(frozenset(gone))


@cache
def compared() -> dict[tuple[Head, Head], tuple[float, float]]:
    """For each pair of heads of a layer: the distance of their maps, the cosine of their W_V W_O."""
    maps, model = _maps("judge"), _model()
    return {
        (one, other): (
            analyse.map_distance(maps[one.layer, one.head], maps[other.layer, other.head]),
            analyse.output_cosine(model, one, other),
        )
        for one, other in combinations(heads_of(model), 2)
        if one.layer == other.layer
    }


def duplicates() -> list[tuple[Head, Head]]:
    """Pairs of a layer that read the same tokens and say the same, measured."""
    return [pair for pair, (far, near) in compared().items() if far <= SAME_MAP and near >= SAME_OUTPUT]
