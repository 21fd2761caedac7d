"""Show what a data set of demonstrations holds. `--help` explains each option."""

import envs  # noqa: F401  (registers the tasks)
from mac_policy.cli.main import run

if __name__ == "__main__":
    run("inspect_data")
