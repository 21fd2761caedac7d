"""Draw how images come about pixel by pixel (SFARM, Fig. 1). `--help` explains each option."""

from mac_policy.cli.main import run

if __name__ == "__main__":
    run("generation")
