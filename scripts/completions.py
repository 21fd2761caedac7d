"""Draw how the arms of a benchmark complete images (SFARM, Fig. 3 and 4). `--help` explains each option."""

from mac_policy.cli.main import run

if __name__ == "__main__":
    run("completions")
