"""Running a command: `mac-policy <command> [options]`, and each of scripts/."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from mac_policy.common.checks import check_choice
from mac_policy.common.processes import Terminated, terminations_raised

COMMANDS = {
    "train": "train_policy",
    "evaluate": "shared_autonomy",
    "collect": "collect_demos",
    "inspect": "inspect_data",
    **{
        name: name
        for name in ("benchmark", "acquire", "infill", "completions", "few_steps", "generation", "mask_distribution")
    },
}
"""Words of the command line, with the modules of this room."""
EXTRAS = {"stable_baselines3": "sb3", "sklearn": "sklearn", "mujoco": "kitchen", "gymnasium_robotics": "kitchen"}
"""Packages, with the extra that installs them where it is not `cli`."""


def main() -> None:
    """The entry point `mac-policy`."""
    with clean_errors():
        if sys.argv[1:] in ([], ["-h"], ["--help"]):
            print(f"usage: mac-policy <command> [--help] [option=value ...]\ncommands: {', '.join(COMMANDS)}")
            return
        word = check_choice("command", sys.argv[1], COMMANDS)
    run(COMMANDS[word], sys.argv[2:])


def run(name: str, options: Sequence[str] | None = None) -> None:
    """Run a command with options, by default those of the command line. A mistake ends the process with code 2."""
    with clean_errors(), terminations_raised():
        from mac_policy.cli.composing import plain, run_with_hydra

        command = import_module(f"mac_policy.cli.{name}").COMMAND

        def task(config: Any) -> None:
            with clean_errors():  # the first mistake ends a sweep
                command.main(plain(config))

        sys.path.append("")  # a user's own policies, operators and tasks
        run_with_hydra(command, task, sys.argv[1:] if options is None else options)


@contextmanager
def clean_errors() -> Iterator[None]:
    """A user's mistake becomes one line on stderr and exit code 2; HYDRA_FULL_ERROR=1 shows the traceback."""
    try:
        yield
    except (ValueError, OSError, ImportError) as error:
        if os.environ.get("HYDRA_FULL_ERROR") == "1":
            raise
        extra = EXTRAS.get(str(error.name), "cli") if isinstance(error, ModuleNotFoundError) else None
        print(f"error: {error}" + (f": pip install 'mac-policy[{extra}]'" if extra else ""), file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt as stop:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)  # a second one would break into the exit
        if isinstance(stop, Terminated):
            print("terminated: finished work is kept, and the same command resumes", file=sys.stderr)
            sys.exit(143)
        print("interrupted", file=sys.stderr)
        sys.exit(130)
