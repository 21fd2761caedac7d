"""Regions of columns in a comparison: refused before anything is trained, and said in what comes out."""

import dataclasses

import pytest

from mac_policy.rows.spec import ModelSpec, build
from tests.rows.helpers import MLP, compare, numbers, one_process

GAUSSIAN = {"kind": "gaussian"}
LATENT = {"kind": "vae", "latent_dim": 2, "importance_samples": 2, "network": MLP}


def of_regions(folder, arms, regions):
    plain = compare(folder, ("sfarm",), seeds=(0,), rows=numbers(), head=GAUSSIAN)
    return dataclasses.replace(plain, arms=arms, networks={"set": MLP, "vae": LATENT}, regions=regions)


def test_the_mode_without_a_region_keeps_its_name():
    with pytest.raises(ValueError, match="a region cannot be named 'random'"):
        build(ModelSpec("sfarm", (4,), None, MLP, GAUSSIAN, regions={"random": [0, 1]}))


def test_a_region_that_is_not_there_is_refused_before_another_arm_is_trained(tmp_path):
    with pytest.raises(ValueError, match=r"region 'inputs' must list elements 0..3, got \[0, 99\]"):
        of_regions(tmp_path, ("vae", "sfarm"), {"inputs": [0, 99]}).run(one_process(), quiet=True)
    assert not any(tmp_path.iterdir())


def test_the_recipe_of_the_results_has_the_regions(tmp_path):
    record = of_regions(tmp_path, ("sfarm",), {"inputs": [0, 1, 2]}).run(one_process(), quiet=True)
    assert record["models"]["regions"] == {"inputs": [0, 1, 2]}
