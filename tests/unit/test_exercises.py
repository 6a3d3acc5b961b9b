import numpy as np
import pandas as pd
import pytest

from utils.exercises import NOT_ATTEMPTED, NOT_YET, PASSED, check


def doubles(attempt):
    assert attempt(2) == 4, f"2 became {attempt(2)}: multiply by two"
    assert attempt(0) == 0


def raising_stub(x):
    raise NotImplementedError


def empty_stub(x):
    pass


def ellipsis_stub(x):
    return ...


@pytest.mark.parametrize("stub", [raising_stub, empty_stub, ellipsis_stub, None, ...])
def test_a_stub_is_not_attempted_yet(stub):
    result = check("1.1", stub, doubles)
    assert result.status == NOT_ATTEMPTED
    assert repr(result) == "1.1: not attempted yet"


def test_a_right_answer_passes():
    result = check("1.1", lambda x: 2 * x, doubles)
    assert (result.status, repr(result)) == (PASSED, "1.1: passed")


def test_a_wrong_answer_gets_the_message_that_teaches():
    result = check("1.1", lambda x: x + 1, doubles)
    assert result.status == NOT_YET
    assert result.message == "2 became 3: multiply by two"


def test_a_bare_assertion_still_says_something():
    result = check("1.1", lambda x: 2 * x + (x == 0), doubles)
    assert result.status == NOT_YET and result.message


def test_an_error_in_the_attempt_is_reported_with_its_line():
    def broken(x):
        return x.missing

    result = check("1.1", broken, doubles)
    assert result.status == NOT_YET
    assert "AttributeError" in result.message and "return x.missing" in result.message


def test_a_value_can_be_checked_too():
    def is_positive(value):
        assert value > 0, f"{value} is not above zero"

    assert check("1.2", 3, is_positive).status == PASSED
    assert check("1.2", -3, is_positive).message == "-3 is not above zero"


def test_a_function_that_sometimes_returns_nothing_is_told_so():
    result = check("1.1", lambda x: None if x == 0 else 2 * x, doubles)
    assert result.status == NOT_YET and "returned nothing" in result.message


def test_the_test_must_be_callable():
    with pytest.raises(TypeError, match="needs a test function"):
        check("1.1", lambda x: x, "not a function")


def test_the_line_of_an_error_is_the_students_not_the_librarys():
    def broken(x):
        return pd.Series([x])["missing"]

    def test(attempt):
        assert attempt(2) == 4

    result = check("1.1", broken, test)
    assert result.message.endswith('at: return pd.Series([x])["missing"]')


def test_an_assertion_in_the_attempt_is_shown_with_its_line():
    def broken(x):
        assert x > 100
        return x

    assert check("1.1", broken, doubles).message.endswith("at: assert x > 100")


@pytest.mark.parametrize("answer", [[1, 2], "4", np.ones(3), (1,)])
def test_an_answer_of_another_type_is_named_by_its_type(answer):
    def test(attempt):
        assert attempt(2).isfinite().all()

    result = check("1.1", lambda x: answer, test)
    assert result.status == NOT_YET and f"is of type {type(answer).__name__}" in result.message
    result = check("1.1", answer, lambda value: value.isfinite())
    assert result.status == NOT_YET and f"is of type {type(answer).__name__}" in result.message


def test_work_without_a_return_is_told_so():
    def forgot(x):
        doubled = 2 * x  # noqa: F841

    result = check("1.1", forgot, doubles)
    assert result.status == NOT_YET and "returned nothing" in result.message


def test_a_stub_with_a_docstring_is_a_stub():
    def stub(x):
        """What it should do."""

    assert check("1.1", stub, doubles).status == NOT_ATTEMPTED


def test_a_test_may_expect_an_error_of_the_attempt():
    def refuses(x):
        raise ValueError("no")

    def test(attempt):
        with pytest.raises(ValueError, match="no"):
            attempt(1)

    assert check("1.1", refuses, test).status == PASSED
