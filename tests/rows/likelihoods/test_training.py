"""Training an arm: resuming, what arms share, and what is varied."""

import json

import numpy as np
import pytest
import torch

from mac_policy.common.files import CheckpointError
from mac_policy.core.heads import EnergyTilted
from mac_policy.rows import checkpoint
from mac_policy.rows.likelihoods.training import Variation, vary_images
from mac_policy.rows.sets.row_set import RowSet
from mac_policy.training.loop import TrainingDiverged
from mac_policy.training.state import ResumeError
from tests.rows.helpers import a_run, letters, numbers, same

WITH_DROPOUT = {"kind": "mlp", "width": 24, "depth": 2, "dropout": 0.5}
ENERGY = {"kind": "energy", "num_components": 2, "latent_dim": 4, "hidden": 8, "num_blocks": 1}


def finish(run):
    assert run.go()
    return run.average


@pytest.mark.parametrize("at", [1, 5])
@pytest.mark.parametrize(("data", "head"), [(letters, None), (numbers, ENERGY)])
def test_stopped_at_any_step_it_ends_with_the_same_weights(tmp_path, data, head, at):
    """With dropout, whose random numbers are torch's own; and the global generator is left as it was."""
    before = torch.random.get_rng_state()
    whole = finish(a_run(tmp_path / "whole", rows=data(), head=head, network=WITH_DROPOUT))
    assert torch.equal(torch.random.get_rng_state(), before)
    torch.rand(3)
    stopped = a_run(tmp_path / "stopped", rows=data(), head=head, network=WITH_DROPOUT)
    for _ in range(at):
        stopped.advance()
    stopped.folder.mkdir()
    stopped.save()
    resumed = a_run(tmp_path / "stopped", rows=data(), head=head, network=WITH_DROPOUT)
    assert same(finish(resumed), whole)
    assert resumed.resumed_from == at
    assert same(checkpoint.load(tmp_path / "stopped")[0], whole)


def test_arms_see_the_same_rows_in_the_same_order(tmp_path):
    runs = [a_run(tmp_path / arm, arm) for arm in ("ardm", "mac")]
    for step in range(4):
        first, second = (run.inputs(step)[0] for run in runs)
        assert torch.equal(first, second)
    other = a_run(tmp_path / "other", seed=1)
    assert not torch.equal(runs[0].inputs(0)[0], other.inputs(0)[0])


def test_a_finished_run_is_loaded_and_another_in_its_folder_refused(tmp_path):
    finish(a_run(tmp_path))
    again = a_run(tmp_path)
    assert not again.go()
    assert (again.step, again.resumed_from) == (8, 8)
    for other, message in (
        (a_run(tmp_path, learning_rate=0.5), "training.learning_rate was 0.01 and is now 0.5"),
        (a_run(tmp_path, arm="ardm"), "spec.method was 'mac' and is now 'ardm'"),
        (a_run(tmp_path, rows=letters(train=61)), "data.train was 60 and is now 61"),
        (a_run(tmp_path, seed=3), "seed was 0 and is now 3"),
    ):
        with pytest.raises(ResumeError, match=message):
            other.go()
    assert a_run(tmp_path, arm="ardm").go(resume=False)


def test_the_curve_is_measured_along_the_way(tmp_path):
    run = a_run(tmp_path)
    finish(run)
    assert [row["step"] for row in run.rows] == [4, 8]
    assert {"joint", "marginal", "validation_loss", "loss"} <= set(run.rows[0])
    assert run.rows[0]["joint"] == pytest.approx(np.log(3), abs=0.4)  # nats a variable, of three values


def test_a_loss_that_is_no_number_names_its_step(tmp_path):
    rows = numbers()
    bad = rows.train.copy()
    bad[5] = np.inf
    rows = RowSet("numbers", bad, rows.valid, rows.test, rows.shape, None, "memory", "1" * 64)
    with pytest.raises(TrainingDiverged, match="is NaN or infinite"):
        a_run(tmp_path, rows=rows, head={"kind": "gaussian"}).go()
    assert 5 in json.loads((tmp_path / "diverged.json").read_text())["rows"]


def test_while_the_proposal_warms_up_the_energy_stands_still(tmp_path):
    run = a_run(tmp_path, rows=numbers(), head=ENERGY, steps=4)
    run.budget = type(run.budget)(run.budget.training, energy_warmup=2, evaluation=run.budget.evaluation)
    head = run.model.model.head
    assert isinstance(head, EnergyTilted)
    before = {name: value.clone() for name, value in head.energy.state_dict().items()}
    mixture = run.model.model.network.output.weight.clone()
    for _ in range(2):
        run.advance()
    moved = [not torch.equal(value, before[name]) for name, value in head.energy.state_dict().items()]
    # The regulariser is off: without its weight an energy has no gradient (weight decay acts on it alone).
    assert head.energy_weight == 0.0
    assert not torch.equal(run.model.model.network.output.weight, mixture)
    gradient = [p.grad.abs().max() for p in head.energy.parameters() if p.grad is not None]
    assert all(value == 0 for value in gradient)
    run.advance()
    assert head.energy_weight == 1.0
    assert max(p.grad.abs().max() for p in head.energy.parameters()) > 0
    assert len(moved) == len(before)


# ---- checkpoints ----


def test_a_trained_arm_is_loaded_without_its_data(tmp_path):
    trained = finish(a_run(tmp_path))
    model, spec = checkpoint.load(tmp_path)
    assert same(model, trained)
    assert (spec.method, spec.shape, spec.levels) == ("mac", (6,), 3)
    assert not model.training


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (
            lambda folder: (folder / "config.json").unlink(),
            "is not the folder of a trained arm: it holds no config.json",
        ),
        (lambda folder: (folder / "config.json").write_text("{"), "is not JSON"),
        (lambda folder: (folder / "config.json").write_text("{}"), "lacks the key 'schema'"),
        (lambda folder: (folder / "model.safetensors").unlink(), "holds no model.safetensors"),
        (lambda folder: (folder / "model.safetensors").write_bytes(b"half"), "is truncated or damaged"),
        (lambda folder: change(folder, "width", 30), "has shape .* the config asks for"),
        (lambda folder: change(folder, "kind", "mlpp"), "unknown network 'mlpp'"),
    ],
)
def test_a_damaged_folder_is_refused_by_name(tmp_path, damage, message):
    finish(a_run(tmp_path))
    damage(tmp_path)
    with pytest.raises(CheckpointError, match=message):
        checkpoint.load(tmp_path)


def change(folder, key, value):
    config = json.loads((folder / "config.json").read_text())
    config["spec"]["network"][key] = value
    (folder / "config.json").write_text(json.dumps(config))


# ---- variations ----


def test_images_are_turned_whole_and_by_a_coin_each():
    generator = torch.Generator().manual_seed(0)
    image = torch.arange(18, dtype=torch.uint8).view(1, 2, 3, 3)
    varied = vary_images(image.repeat(4000, 1, 1, 1), ("flip-both", "rotate"), generator)
    kinds, counts = varied.flatten(1).unique(dim=0, return_counts=True)
    assert len(kinds) == 8  # the symmetries of a square
    assert counts.min() > 4000 / 8 * 0.8
    wanted = {tuple(image.rot90(k, (2, 3)).flatten().tolist()) for k in range(4)}
    wanted |= {tuple(image.flip(3).rot90(k, (2, 3)).flatten().tolist()) for k in range(4)}
    assert {tuple(kind) for kind in kinds.tolist()} == wanted


def test_flip_alone_leaves_up_and_down_as_they_are():
    image = torch.arange(4).view(1, 1, 2, 2)
    varied = vary_images(image.repeat(200, 1, 1, 1), ("flip",), torch.Generator().manual_seed(0))
    assert {tuple(kind) for kind in varied.flatten(1).tolist()} == {(0, 1, 2, 3), (1, 0, 3, 2)}


def test_noise_has_its_standard_deviation_and_nothing_varies_by_default():
    x = torch.zeros(2000, 3)
    noisy = Variation(noise=0.25)(x, (3,), torch.Generator().manual_seed(0))
    assert noisy.std() == pytest.approx(0.25, rel=0.05)
    assert Variation()(x, (3,), torch.Generator()) is x


def test_wrong_variations_are_refused():
    with pytest.raises(ValueError, match=r"unknown variation of images 'turn'; .*'rotate'"):
        Variation(images=("turn",))
    with pytest.raises(ValueError, match="noise must be at least 0"):
        Variation(noise=-1.0)
    with pytest.raises(ValueError, match="only square images can be rotated, these are 2 x 3"):
        vary_images(torch.zeros(1, 1, 2, 3), ("rotate",), torch.Generator())
