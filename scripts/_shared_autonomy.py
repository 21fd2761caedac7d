"""The options of shared_autonomy.py as a comparison."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import envs  # noqa: F401  (registers the tasks)
from mac_policy.cli.command import options_of
from mac_policy.evaluation.comparison import Comparison, ComparisonSettings, plan
from mac_policy.operators.registry import make_kind
from mac_policy.tasks import TASKS


def make_plan(options: Mapping[str, Any]) -> Comparison:
    """The comparison, every option of which is checked before anything is rolled out."""
    settings = options_of(ComparisonSettings, options)
    task_options, operator_options = dict(options["task"]), dict(options["operator"])
    task = TASKS.find(task_options.pop("name")).with_options(task_options)
    operator = make_kind(operator_options.pop("kind"), operator_options)
    out = None if options["out"] is None else str(options["out"])
    return plan(task, operator, options["operator_dims"], settings, out)
