"""Draw images in fewer network passes and measure them (SFARM, Fig. 7 and 8). `--help` explains each option."""

from mac_policy.cli.main import run

if __name__ == "__main__":
    run("few_steps")
