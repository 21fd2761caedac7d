"""completions.py, few_steps.py and generation.py as a user would run them, on a folder of images made here."""

import re

import imageio.v3 as imageio
import numpy as np
import pytest

from tests.scripts.helpers import run_here


@pytest.fixture(scope="module")
def user(tmp_path_factory):
    """A folder of small pictures and two arms trained on them."""
    folder = tmp_path_factory.mktemp("user")
    faces = folder / "data" / "celeba64"
    faces.mkdir(parents=True)
    for number in range(14):
        image = np.random.default_rng(number).integers(0, 256, (64, 64, 3), np.uint8)
        imageio.imwrite(faces / f"{number:03}.png", image)
    code, _, err = run(folder, "benchmark.py", "benchmark=celeba64", "preset=smoke", "seeds=[0]")
    assert code == 0, err
    return folder


def run(user, name, *options):
    return run_here(name, *options, cwd=user, MAC_DATA=str(user / "data"))


RUN = "run=runs/benchmark/celeba64-smoke"


def test_completions_are_two_pictures(user):
    code, out, err = run(user, "completions.py", RUN, "steps=2", "images=1", "missing=[random-0.5]", "masks=[left]")
    assert code == 0, err
    for line, name in zip(out.split(), ("missing", "masks"), strict=True):
        assert line == f"runs/benchmark/celeba64-smoke/completion_{name}.png"
        assert imageio.imread(user / line).ndim == 3


@pytest.mark.parametrize(
    ("script", "options", "message"),
    [
        ("completions.py", (RUN, "arms=[mac]"), "error: unknown trained arm 'mac'; allowed are 'sfarm'"),
        ("completions.py", (RUN, "masks=[lefft]", "steps=2", "images=1"), "error: masks: 'lefft': unknown pattern"),
        ("few_steps.py", (f"{RUN}/sfarm-s0", "preset=cpuu"), "error: unknown preset 'cpuu'.*did you mean 'cpu'"),
        ("few_steps.py", (f"{RUN}/sfarm-s0", "preset=smoke", "steps=[2]"), "unknown data set with classes 'celeba64'"),
        ("generation.py", (f"{RUN}/sfarm-s0", "mode=interrior"), "error: unknown mode 'interrior'.*mean 'interior'"),
    ],
)
def test_a_mistake_is_one_clean_line(user, script, options, message):
    code, out, err = run_here(script, *options, cwd=user, MAC_DATA=str(user / "data"))
    assert (code, out) == (2, "")  # nothing is drawn before
    assert re.search(message, err), err
    assert "Traceback" not in err
