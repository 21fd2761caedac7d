"""Imports between rooms look one way; the kitchen and Hydra stay outside of the library."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LIBRARY = sorted((ROOT / "mac_policy").rglob("*.py"))
MAY_IMPORT = {  # a room of the library: the rooms it may use
    "common": {"common"},
    "core": {"common", "core"},
    "demonstrations": {"common", "demonstrations"},
    "training": {"common", "training"},
    "policies": {"common", "core", "demonstrations", "policies", "training"},
    "operators": {"common", "operators", "policies"},
    "filter": {"common", "filter", "operators", "policies"},
    "evaluation": {"tasks", "common", "demonstrations", "evaluation", "filter", "operators", "policies"},
    "tasks": {"common", "demonstrations", "operators", "tasks"},
    "rows": {"common", "core", "rows", "training"},
}
MAY_IMPORT["cli"] = {"cli", *MAY_IMPORT} - {"filter"}
ONLY_SCRIPTS = {"hydra", "omegaconf", "envs", "scripts", "benchmarks", "tests", "gymnasium_robotics", "mujoco"}


def imported(path: Path) -> set[str]:
    """Every module a file names in an import, also inside functions."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


@pytest.mark.parametrize("path", LIBRARY, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_file_imports_only_what_its_layer_may(path):
    names = imported(path)
    part = path.relative_to(ROOT / "mac_policy").parts[0].removesuffix(".py")
    allowed = {"hydra", "omegaconf"} if part == "cli" else set()
    assert not {name.split(".")[0] for name in names} & ONLY_SCRIPTS - allowed
    if part == "__init__":
        return
    used = {name.split(".")[1] for name in names if name.startswith("mac_policy.")}
    assert used <= MAY_IMPORT[part], f"{part} must not use {used - MAY_IMPORT[part]}"


def test_the_library_imports_without_hydra_or_a_simulator():
    code = (
        "import sys, mac_policy, mac_policy.core; "
        "sys.exit(str([m for m in ('hydra', 'mujoco', 'envs', 'gymnasium_robotics') if m in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.strip() == "[]"


def test_no_machine_or_registry_addresses_in_the_project():
    files = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    for name in files:
        if name.endswith((".png", ".gif")) or name == "tests/test_layers.py":
            continue
        text = (ROOT / name).read_text()
        assert "/root/" not in text, name
        assert "/work/" not in text, name
        assert "index-url" not in text, name
