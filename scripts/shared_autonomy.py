"""Roll out an operator with each policy that can fill in, and tabulate. `--help` explains each option."""

import envs  # noqa: F401  (registers the tasks)
from mac_policy.cli.main import run

if __name__ == "__main__":
    run("shared_autonomy")
