"""The public names: each imports, is documented and has an example; importing the package loads next to nothing."""

import doctest
import inspect
import subprocess
import sys

import pytest

import mac_policy

LOADED = "import sys; before = set(sys.modules); import mac_policy; print(*sorted(set(sys.modules) - before))"


@pytest.mark.parametrize("name", mac_policy.__all__)
def test_a_public_name_is_documented_with_an_example(name):
    found = getattr(mac_policy, name)
    assert name in dir(mac_policy)
    described = found if inspect.isclass(found) or inspect.isfunction(found) else type(found)
    text = described.__doc__ or ""
    assert len(text.split()) > 5
    examples = doctest.DocTestParser().get_examples(text)
    assert examples, f"{name} has no example"
    if not any(doctest.SKIP not in example.options for example in examples):
        reasons = text.replace("# doctest: +SKIP", "")
        assert "# " in reasons, f"the skipped example of {name} does not say why it is skipped"


def test_names_that_users_need_are_public():
    assert {"ActionFilter", "Imputer", "Operator", "Policy", "RowModel", "register_task"} <= set(mac_policy.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        mac_policy.nothing  # noqa: B018


def test_importing_the_package_loads_nothing_but_the_standard_library():
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True)
    roots = {module.split(".")[0] for module in done.stdout.split()}
    assert roots - set(sys.stdlib_module_names) == {"mac_policy"}
    assert len(done.stdout.split()) < 40
