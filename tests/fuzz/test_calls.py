"""Every public call with arguments of wrong types, shapes and values: a clear error, and never a wrong result."""

import contextlib
import io
import warnings

import pytest

import mac_policy
from tests.fuzz.calls import WRONG, is_fine, public_calls, table_calls
from tests.fuzz.outcome import outcome
from tests.policies.conftest import SPACES

PATH = "os.PathLike"
"""In the message of Python's own TypeError for what is no path."""


def attack(calls, folder, monkeypatch):
    """The number of inputs, and those that were neither refused clearly nor right."""
    monkeypatch.chdir(folder)
    count, defects = 0, []
    for name, call in calls.items():
        for argument, kind in call.kinds.items():
            for value in WRONG[kind]:
                if is_fine(call, argument, value):
                    continue
                count += 1
                with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                    found = outcome(call.function, **{**call.right, argument: value})
                if found.kind != "refused" and PATH not in found.message:
                    defects.append(f"{name}({argument}={value!r:.60}): {found.kind} {found.message}")
    return count, defects


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def test_wrong_arguments_of_public_calls_are_refused(tmp_path, monkeypatch):
    count, defects = attack(public_calls(), tmp_path, monkeypatch)
    assert not defects, "\n".join(defects)
    assert count > 1000


@pytest.mark.slow
def test_wrong_arguments_of_calls_about_tables_are_refused(tmp_path, monkeypatch):
    count, defects = attack(table_calls(), tmp_path, monkeypatch)
    assert not defects, "\n".join(defects)
    assert count > 100


def test_right_arguments_work(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("bc.act", "mac.step", "mac with labels.belief", "mac.predict", "AnyOrderModel.log_prob",
                 "AnyOrderModel.sample", "MaskTuned", "Spaces.of", "make_policy", "OperatorDims.parse"):  # fmt: skip
        call = public_calls()[name]
        call.function(**call.right)


def test_what_cannot_be_registered_leaves_the_registry_as_it_was():
    before = dict(mac_policy.POLICIES)
    with pytest.raises(ValueError, match="must be a subclass"):
        mac_policy.make_policy("os:path", SPACES)
    assert dict(mac_policy.POLICIES) == before
