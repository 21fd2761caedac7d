"""Running a script as a user would, away from the user's own data and from the network."""

import contextlib
import importlib
import io
import os
import subprocess
import sys
from pathlib import Path
from unittest import mock

from mac_policy.cli.composing import compose
from mac_policy.cli.main import run

ROOT = Path(__file__).parents[2]


def run_script(name, *options, cwd, **environment):
    """(exit code, stdout, stderr) of `python scripts/<name> <options>` run in the folder `cwd`."""
    process = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / name), *options],
        cwd=cwd,
        env=script_environment(cwd, **environment),
        capture_output=True,
        text=True,
        check=False,
    )
    return process.returncode, process.stdout, process.stderr


def script_environment(folder, **changes):
    """The environment of a user without data and without the internet, whose store lies in `folder`."""
    return {
        **{key: value for key, value in os.environ.items() if key != "MAC_DATA"},
        "MINARI_DATASETS_PATH": str(Path(folder) / "store"),
        "D4RL_DATASET_DIR": str(Path(folder) / "d4rl"),
        "HF_HUB_OFFLINE": "1",
        **changes,
    }


def run_here(name, *options, cwd, **environment):
    """The same in this process: its errors are the script's, without the seconds that a new process takes."""
    out, err, code, before = io.StringIO(), io.StringIO(), 0, Path.cwd()
    with (
        mock.patch.dict(os.environ, script_environment(cwd, **environment), clear=True),
        mock.patch.object(sys, "argv", [f"scripts/{name}", *options]),
        mock.patch.object(sys, "path", list(sys.path)),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        os.chdir(cwd)
        try:
            run(name.removesuffix(".py"), options)
        except SystemExit as stop:
            code = stop.code
        finally:
            os.chdir(before)
    return code, out.getvalue(), err.getvalue()


def command(name):
    """The command of a script."""
    return importlib.import_module(f"mac_policy.cli.{name.removesuffix('.py')}").COMMAND


def composed(name, *options):
    """The options of a script as plain values."""
    return compose(command(name), options)
