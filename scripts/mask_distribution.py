"""Table 7 of the MAC paper: the masks that training meets under each mask distribution, exact and sampled."""

from mac_policy.cli.main import run

if __name__ == "__main__":
    run("mask_distribution")
