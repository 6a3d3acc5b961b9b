"""Checks for exercises: they teach, and never stop a notebook."""

from __future__ import annotations

import dis
import inspect
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any

PASSED = "passed"
NOT_ATTEMPTED = "not attempted yet"
NOT_YET = "not yet right"
EMPTY_BODY = {"RESUME", "NOP", "LOAD_CONST", "RETURN_VALUE", "RETURN_CONST", "LOAD_SMALL_INT"}  # by Python 3.11 to 3.14


@dataclass(frozen=True, repr=False)
class Result:
    """What a check found. ``status`` is one of PASSED, NOT_ATTEMPTED, NOT_YET."""

    name: str
    status: str
    message: str = ""

    def __repr__(self) -> str:
        return f"{self.name}: {self.status}" + (f" – {self.message}" if self.message else "")


class _Stub(Exception):
    """The attempt is still the empty stub."""


def _is_stub(value: Any) -> bool:
    return value is None or value is Ellipsis or value is NotImplemented


class _Nothing(Exception):
    """The attempt does something, and returns nothing."""


def _does_nothing(attempt: Callable) -> bool:
    """True for a function whose body is empty; true also where that cannot be told."""
    code = getattr(inspect.unwrap(attempt), "__code__", None)
    return code is None or {each.opname for each in dis.get_instructions(code)} <= EMPTY_BODY


def _watched(attempt: Callable, returned: list) -> Callable:
    """The attempt, which leaves what it returned in ``returned``; a call that gives nothing back counts as a stub."""

    @wraps(attempt)
    def watched_call(*args, **kwargs):
        try:
            value = attempt(*args, **kwargs)
        except NotImplementedError:
            raise _Stub from None
        if _is_stub(value):
            raise _Stub if value is not None or _does_nothing(attempt) else _Nothing
        returned[:] = [value]
        return value

    return watched_call


def _line_of_attempt(error: Exception) -> str | None:
    """The line of the attempt at which it stopped, not one of a library it calls; None if the test stopped."""
    frames = traceback.extract_tb(error.__traceback__)
    calls = [place for place, frame in enumerate(frames) if (frame.filename, frame.name) == (__file__, "watched_call")]
    if not calls:
        return None
    inside = frames[calls[-1] + 1 :]
    own = [frame.line for frame in inside if frame.filename == inside[0].filename]
    return (own and own[-1]) or "your code"


def check(name: str, attempt: Any, test: Callable[[Any], None]) -> Result:
    """Try an attempt (a function or a value) with ``test`` and say how it went.

    test: called with the attempt; an ``AssertionError`` in it marks a wrong answer, and its message is what the student
    reads. A stub (None, ..., a function that returns nothing or raises NotImplementedError) is "not attempted yet".
    An error inside the attempt is reported with the attempt's own line, not raised; an answer of a kind that the test
    cannot use is named by its type.
    """
    if not callable(test):
        raise TypeError(f"check needs a test function as its third argument, got {type(test).__name__}")
    returned = [attempt]
    try:
        if _is_stub(attempt):
            raise _Stub
        test(_watched(attempt, returned) if callable(attempt) else attempt)
    except _Stub:
        return Result(name, NOT_ATTEMPTED)
    except _Nothing:
        return Result(name, NOT_YET, "your function returned nothing: let it end in return, followed by the answer")
    except Exception as error:  # noqa: BLE001 – whatever the student's code raises is reported
        return Result(name, NOT_YET, _explained(error, returned[0]))
    return Result(name, PASSED)


def _explained(error: Exception, answer: Any) -> str:
    """What the student reads about an error in the attempt or in the test."""
    line = _line_of_attempt(error)
    if line:
        return f"stopped with {type(error).__name__} ({error}) at: {line}"
    if isinstance(error, AssertionError):
        return str(error).split("\nassert ")[0] or "the result differs from what was asked"
    return (
        f"your answer is of type {type(answer).__name__}, with which the check cannot go on "
        f"({type(error).__name__}: {error}): return what the exercise asks for"
    )
