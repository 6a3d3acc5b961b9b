"""What the assessment "Understand" asks of each exercise: an AssertionError names the misconception."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from utils import understand
from utils.claims import MEASURED
from utils.understand import GOAL, LETTERS

SHOWN = 2  # mistakes that are named at a time


def judges_a_talk(attempt: Callable) -> None:
    """U.1: attempt() → {sentence: (verdict, reason)} for all eleven sentences."""
    found, asked = attempt(), understand.sentences()
    _dictionary(found, asked, "sentence")
    faults = {number: _misjudged(each, found[number]) for number, each in asked.items()}
    verdicts = {found[number][0] for number in asked}
    assert len(verdicts) > 1, f"every sentence “{verdicts.pop()}”: read what each of them speaks of"
    _named(faults, "sentence")


def _misjudged(sentence: understand.Sentence, given: object) -> str:
    """What is wrong with a verdict and its reason; empty if nothing is."""
    pair = isinstance(given, tuple | list) and len(given) == 2
    assert pair, f"sentence {sentence.insight}: give a verdict and a reason, such as (“holds”, “as stated”)"
    (verdict, reason), known = given, understand.reasons()
    turned = _one_of(verdict, known) and _one_of(reason, MEASURED)
    assert not turned, f"sentence {sentence.insight}: first the verdict, then the reason: ({reason!r}, {verdict!r})"
    assert _one_of(verdict, MEASURED), f"sentence {sentence.insight}: {verdict!r} is no verdict: use {_all(MEASURED)}"
    assert _one_of(reason, known), f"sentence {sentence.insight}: {reason!r} is no reason: use {_all(known)}"
    agree = (verdict == "holds") == (reason == "as stated")
    rule = "only a sentence that holds stands “as stated”, and every other one has a fault"
    assert agree, f"sentence {sentence.insight}: “{verdict}” and “{reason}” contradict each other: {rule}"
    if verdict != sentence.verdict:
        return f"not “{verdict}”. {sentence.reasons.get(reason, sentence.why)}"
    if reason in (sentence.reason, *sentence.also):
        return ""
    return f"the verdict is right, “{reason}” is not the main fault. {sentence.reasons.get(reason, sentence.why)}"


def chooses_controls(attempt: Callable) -> None:
    """U.2: attempt() → {finding: name of its control}."""
    found, asked = attempt(), understand.findings()
    _dictionary(found, asked, "finding")
    known = understand.controls()
    faults = {}
    for number, finding in asked.items():
        control = found[number]
        assert _one_of(control, known), f"finding {number}: {control!r} is no control: use one of {_all(known)}"
        faults[number] = (
            ""
            if control == finding.control
            else (f"“{control}” shows {understand.shown_by(control)}, and asked is {finding.asked}")
        )
    _named(faults, "finding")


def makes_its_points(attempt: Callable) -> None:
    """U.3: attempt() → {insight: letters of the points}, for the five of the goal at least."""
    found, known = attempt(), understand.explanations()
    assert isinstance(found, Mapping), f"return a dictionary, insight → letters, not {type(found).__name__}"
    for number, letters in found.items():
        assert number in known, f"insight {number!r} is not there: choose 1 to 11{_as_text(number)}"
        _letters(number, letters, len(known[number].points))
    if missing := [number for number in GOAL if number not in found]:
        titles = "; ".join(f"{number}, {known[number].title}" for number in missing)
        raise AssertionError(f"the goal names five insights, and {len(missing)} of them are missing: {titles}")
    _named({number: _pointless(known[number], set(letters)) for number, letters in found.items()}, "insight")


def _pointless(explanation: understand.Explanation, chosen: set[str]) -> str:
    """What is mistaken in the points that were chosen, or else missing; empty if nothing is."""
    for letter, point in zip(LETTERS, explanation.points, strict=False):
        if letter in chosen and point.wrong:
            return f"point {letter} does not hold: {point.wrong}"
    left = [point.needed for letter, point in zip(LETTERS, explanation.points, strict=False) if letter not in chosen]
    left = [needed for needed in left if needed]
    return f"something is missing: {left[0]}" if left else ""


def _letters(number: int, letters: object, count: int) -> None:
    fine = isinstance(letters, str | list | tuple | set) and all(isinstance(each, str) for each in letters)
    assert fine, f'insight {number}: give the letters of points, such as "ac", not {letters!r}'
    strange = sorted(set(letters) - set(LETTERS[:count]))
    assert not strange, (
        f"insight {number} has no point {strange[0]!r}: there are {LETTERS[0]} to {LETTERS[count - 1]}; "
        'write small letters and nothing between them, such as "ac"'
    )
    assert set(letters), f"insight {number}: no point is chosen"
    everything = len(set(letters)) == count
    assert not everything, f"insight {number}: all points at once cannot be right, some contradict each other"


def _dictionary(found: object, asked: Mapping, what: str) -> None:
    """The answer is a dictionary with the numbers that are asked for, and no others."""
    assert isinstance(found, Mapping), f"return a dictionary, {what} → answer, not {type(found).__name__}"
    strange, missing = [n for n in found if n not in asked], [n for n in asked if n not in found]
    asked_for = f"there is no {what} {strange[0]!r}: asked are {', '.join(map(str, asked))}" if strange else ""
    assert not strange, asked_for + _as_text(strange[0])
    assert not missing, f"{what} {missing[0]} has no answer"


def _as_text(key: object) -> str:
    """What to say of a key that is a number in quotes; else nothing."""
    return f", as numbers: {int(key)}, not {key!r}" if isinstance(key, str) and key.strip().isdecimal() else ""


def _one_of(name: object, names: Iterable[str]) -> bool:
    return isinstance(name, str) and name in names


def _all(names: Iterable[str]) -> str:
    """Names as they are typed. Some have commas in them."""
    return ", ".join(f'"{name}"' for name in names)


def _named(faults: Mapping[int, str], what: str) -> None:
    """Refuse with the first faults, in words, and how many there are."""
    faults = {number: fault for number, fault in faults.items() if fault}
    first = " ".join(f"{what.capitalize()} {n}: {fault.rstrip('.')}." for n, fault in list(faults.items())[:SHOWN])
    assert not faults, f"{len(faults)} not right yet. {first}"
