"""Record scripted demonstrations of a task into a Minari data set. `--help` explains each option."""

import envs  # noqa: F401  (registers the tasks)
from mac_policy.cli.main import run

if __name__ == "__main__":
    run("collect_demos")
