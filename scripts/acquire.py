"""Which variable to look at next: errors of a target against how many are known. `--help` explains each option."""

from mac_policy.cli.main import run

if __name__ == "__main__":
    run("acquire")
