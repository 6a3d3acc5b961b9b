"""Checks for exercises: they teach, and never stop a notebook."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any

PASSED = "passed"
NOT_ATTEMPTED = "not attempted yet"
NOT_YET = "not yet right"


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


def _watched(attempt: Callable) -> Callable:
    """The attempt, but a call that gives nothing back counts as a stub."""

    @wraps(attempt)
    def call(*args, **kwargs):
        try:
            value = attempt(*args, **kwargs)
        except NotImplementedError:
            raise _Stub from None
        if _is_stub(value):
            raise _Stub
        return value

    return call


def check(name: str, attempt: Any, test: Callable[[Any], None]) -> Result:
    """Try an attempt (a function or a value) with ``test`` and say how it went.

    test: called with the attempt; an ``AssertionError`` in it marks a wrong answer, and its message is what the student
    reads. A stub (None, ..., a function that returns nothing or raises NotImplementedError) is "not attempted yet".
    An error inside the attempt is reported with its line, not raised.
    """
    if not callable(test):
        raise TypeError(f"check needs a test function as its third argument, got {type(test).__name__}")
    try:
        if _is_stub(attempt):
            raise _Stub
        test(_watched(attempt) if callable(attempt) else attempt)
    except _Stub:
        return Result(name, NOT_ATTEMPTED)
    except AssertionError as error:
        return Result(name, NOT_YET, str(error).split("\nassert ")[0] or "the result differs from what was asked")
    except Exception as error:  # noqa: BLE001 – whatever the student's code raises is reported
        line = traceback.extract_tb(error.__traceback__)[-1].line or "your code"
        return Result(name, NOT_YET, f"stopped with {type(error).__name__} ({error}) at: {line}")
    return Result(name, PASSED)
