"""Kinds by name: registered ones, a user's own by module and attribute, and clear refusals."""

import pytest

from mac_policy.common.registry import Registry


@pytest.fixture
def numbers():
    registry = Registry("number", "mac_policy_test.numbers")
    registry.register("one", 1)
    registry.register("two", 2)
    return registry


def test_registered_kinds_are_found_by_name(numbers):
    assert numbers.find("one") == numbers["one"] == 1
    assert list(numbers) == ["one", "two"]


def test_an_attribute_of_any_module_is_found_and_registered_under_its_name(numbers):
    assert numbers.find("math:pi") == pytest.approx(3.14159, abs=1e-5)
    assert "math:pi" in numbers


def test_a_kind_of_a_user_is_called_as_it_was_typed(numbers):
    numbers.register("pi", numbers.find("math:pi"))
    assert [numbers.typed(name) for name in ("pi", "one", "unknown")] == ["math:pi", "one", "unknown"]


def test_a_name_serves_one_kind_alone(numbers):
    numbers.register("one", 1)
    with pytest.raises(ValueError, match="number 'one' is registered already"):
        numbers.register("one", 3)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("oen", "unknown number 'oen'.*did you mean 'one'"),
        ("no_such_module_here:x", "'no_such_module_here:x' cannot be imported: No module named"),
        ("math:no_such", "cannot be imported: module 'math' has no attribute"),
    ],
)
def test_what_is_not_there_is_refused(numbers, name, message):
    with pytest.raises(ValueError, match=message):
        numbers.find(name)


def test_indexing_never_imports(numbers):
    with pytest.raises(KeyError):
        numbers["math:pi"]
