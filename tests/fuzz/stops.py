"""Commands that stop where their work would begin."""

import contextlib
import os
from pathlib import Path
from unittest import mock

import envs  # noqa: F401  (registers the tasks)
from mac_policy.demonstrations import resolve
from mac_policy.operators.registry import OPERATORS
from mac_policy.policies.registry import POLICIES
from mac_policy.tasks import TASKS
from tests.fuzz.outcome import started
from tests.scripts.helpers import script_environment

WORK = (
    "mac_policy.demonstrations.resolve._read",
    "mac_policy.cli.shared_autonomy.measure",
    "mac_policy.cli.collect_demos.collect_into_store",
    "mac_policy.rows.likelihoods.presets.load_rows",
    "mac_policy.cli.infill.load",
    "mac_policy.cli.completions.load_arms",
    "mac_policy.cli.few_steps.load_of_images",
    "mac_policy.cli.generation.load_of_images",
    "mac_policy.cli.mask_distribution.exact_columns",
)
"""What takes long, needs data, or runs after all options are checked."""


@contextlib.contextmanager
def stopped(folder):
    """Within it, a command raises `Started` instead of working; it runs in `folder`, and the registries stay."""
    with contextlib.ExitStack() as stack:
        for name in WORK:
            stack.enter_context(mock.patch(name, started))
        stack.enter_context(mock.patch.dict(resolve.ORDERS, dict.fromkeys(resolve.ORDERS, (started,))))
        stack.enter_context(mock.patch.dict(resolve.PLACES, {started: ("nowhere", "name")}))
        for registry in (TASKS, OPERATORS, POLICIES):
            stack.enter_context(mock.patch.dict(registry._kinds))
        stack.enter_context(mock.patch.dict(os.environ, script_environment(folder), clear=True))
        stack.callback(os.chdir, Path.cwd())
        os.chdir(folder)
        yield
