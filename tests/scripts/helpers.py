"""Running a script as a user would, away from the user's own data and from the network."""

import os
import subprocess
import sys
from pathlib import Path

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
