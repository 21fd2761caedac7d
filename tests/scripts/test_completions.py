"""completions.py, few_steps.py and generation.py as a user would run them, on a folder of images made here."""

import json
import re

import imageio.v3 as imageio
import numpy as np
import pytest

from mac_policy.cli import few_steps
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


@pytest.mark.parametrize(("accuracy", "shown"), [(0.1, False), (0.6, True)])
def test_distances_are_shown_if_the_classifier_is_better_than_guessing(user, monkeypatch, accuracy, shown):
    found = {"steps": {"2": 1.5}, "between_test_images": 0.25}
    monkeypatch.setattr(few_steps, "set_with_classes", lambda rows: rows.name)
    monkeypatch.setattr(few_steps, "features_for", lambda *_: (None, accuracy))
    monkeypatch.setattr(few_steps, "check_samples", lambda samples, rows: 2)
    monkeypatch.setattr(few_steps, "distances", lambda *_: found)
    out = user / f"few-{accuracy}"
    code, said, err = run(user, "few_steps", f"{RUN}/sfarm-s0", "preset=smoke", "steps=[2]", f"out={out}")
    assert code == 0, err
    distance = json.loads((out / "results.json").read_text())["distance"]
    assert ("steps" in distance, (out / "distances.png").exists(), "1.500" in said) == (shown, shown, shown)
    assert ("right for 10.0% of the test images, guessing for 10%" in said) != shown
