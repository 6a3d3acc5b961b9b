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
