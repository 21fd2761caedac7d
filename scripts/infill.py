"""Fill the holes of texts and images with a trained arm. `--help` explains each option."""

from mac_policy.cli.main import run

if __name__ == "__main__":
    run("infill")
