"""Train arms under one budget and compare their likelihoods. `--help` explains each option."""

from mac_policy.cli.main import run

if __name__ == "__main__":
    run("benchmark")
