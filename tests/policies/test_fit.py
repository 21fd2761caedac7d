"""Training does what its settings say, in one process and in several."""

import csv
import json
import time

import numpy as np
import pytest
import torch
from lightning_fabric import Fabric

from envs.fork.environment import Fork
from envs.fork.operator import ForkExpert
from mac_policy.operators.dims import OperatorDims
from mac_policy.policies.checkpoint import load_policy, read_config
from mac_policy.policies.fit import Trainer, train
from mac_policy.training import settings
from mac_policy.training.fabric import leave_group, make_fabric
from mac_policy.training.loop import TrainingDiverged
from mac_policy.training.optimizer import rate
from mac_policy.training.settings import TrainSettings
from mac_policy.training.streams import Shuffle, stream
from tests.training.helpers import demonstrations, quickly, same, small


@pytest.mark.parametrize("kind", ["bc", "mac", "ibc"])
def test_a_run_leaves_a_policy_its_metrics_and_a_curve(tmp_path, kind):
    result = train(small(kind), demonstrations(), quickly(), tmp_path, quiet=True)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"config.json", "model.safetensors", "best.safetensors", "metrics.csv", "curve.png"} | (
        {"calibration.json"} if kind == "mac" else set()
    )
    rows = list(csv.DictReader((tmp_path / "metrics.csv").open()))
    assert [int(row["step"]) for row in rows] == [20, 40, 60]
    assert float(rows[-1]["loss"]) < float(rows[0]["loss"])
    assert ("coverage50" in rows[0]) == (kind == "mac")
    config = read_config(tmp_path)
    assert config["dataset"]["source"] == "scripted"
    assert config["training"]["steps"] == 60
    assert same(load_policy(tmp_path), result.policy)
    assert load_policy(tmp_path, weights="best").kind == kind


def test_the_same_seed_gives_the_same_weights_and_another_seed_others(tmp_path):
    runs = [train(small(seed=s), demonstrations(), quickly(), tmp_path / n, seed=s, quiet=True).policy
            for n, s in (("a", 0), ("b", 0), ("c", 1))]  # fmt: skip
    assert same(runs[0], runs[1])
    assert not same(runs[0], runs[2])


def test_the_global_random_state_is_left_alone(tmp_path):
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    train(small(), demonstrations(), quickly(steps=3, validations=1), tmp_path, quiet=True)
    assert torch.equal(torch.rand(3), expected)


def test_chunks_and_history_train(tmp_path):
    policy = small("mac", history=2, horizon=3, execute=2, observation_noise=0.1)
    train(policy, demonstrations(), quickly(), tmp_path, quiet=True)
    state, loaded = None, load_policy(tmp_path)
    for _ in range(4):
        action, state = loaded.step(np.zeros((2, 2)), state)
        assert action.shape == (2, 2)


def test_a_loss_that_is_no_number_stops_with_step_and_rows_and_keeps_the_checkpoint(tmp_path):
    settings = quickly(save_seconds=0.0)
    fabric = make_fabric(settings)
    trainer = Trainer(small("bc"), demonstrations(), settings, tmp_path, seed=0, fabric=fabric, quiet=True)
    bad = int(trainer.shuffle.batch(9)[5])
    first_seen = next(step for step in range(60) if bad in trainer.shuffle.batch(step))
    trainer.data.targets[bad] = torch.nan
    if first_seen == 0:
        pytest.fail("choose another row: this one is in the first batch")
    with pytest.raises(TrainingDiverged, match=f"loss at step {first_seen} .* last good checkpoint") as caught:
        trainer.run()
    assert caught.value.step == first_seen
    assert bad in caught.value.rows
    assert json.loads((tmp_path / "diverged.json").read_text()) == {"step": first_seen, "rows": caught.value.rows}
    assert load_policy(tmp_path).kind == "bc"
    assert read_config(tmp_path)["training"]["steps"] == first_seen


def test_a_gradient_that_is_no_number_stops_too(tmp_path):
    settings = quickly()
    trainer = Trainer(
        small("bc"), demonstrations(), settings, tmp_path, seed=0, fabric=make_fabric(settings), quiet=True
    )
    next(trainer.model.parameters()).register_hook(lambda gradient: gradient * torch.nan)
    with pytest.raises(TrainingDiverged, match=r"gradient at step 0 .* no checkpoint yet"):
        trainer.run()


def test_early_stopping_and_the_best_weights(tmp_path):
    settings = quickly(steps=400, learning_rate=1.0, schedule="constant", validations=40, patience=3, ema=0.0,
                       weights="best", warmup=0.0)  # fmt: skip
    result = train(small("bc"), demonstrations(), settings, tmp_path, quiet=True)
    assert result.steps < 400
    losses = [float(row["validation_loss"]) for row in csv.DictReader((tmp_path / "metrics.csv").open())]
    assert min(losses[-3:]) >= min(losses)
    assert same(load_policy(tmp_path), load_policy(tmp_path, weights="best"))


def test_without_an_average_the_last_weights_are_saved(tmp_path):
    policy = small("bc")
    result = train(policy, demonstrations(), quickly(ema=0.0, validation=0.0), tmp_path / "a", quiet=True)
    assert result.policy is policy
    averaged = train(small("bc"), demonstrations(), quickly(ema=0.99, validation=0.0), tmp_path / "b", quiet=True)
    assert not same(averaged.policy, policy)


def test_bf16_agrees_with_fp32_loosely(tmp_path):
    losses = {}
    for precision in ("fp32", "bf16"):
        train(small("mac"), demonstrations(), quickly(precision=precision), tmp_path / precision, quiet=True)
        rows = csv.DictReader((tmp_path / precision / "metrics.csv").open())
        losses[precision] = np.array([float(row["validation_loss"]) for row in rows])
    np.testing.assert_allclose(losses["bf16"], losses["fp32"], atol=0.05)
    assert (losses["bf16"] != losses["fp32"]).any()


# ---- several processes ----


def gradients(fabric, folder):
    """The gradient of the first step, and the weights after a few, of every process."""
    torch.set_num_threads(1)
    settings = quickly(batch_size=64, steps=6, validations=1)
    trainer = Trainer(small("mac"), demonstrations(), settings, folder, seed=0, fabric=fabric, quiet=True)
    trainer.backward(0)
    first = {name: p.grad.clone() for name, p in trainer.model.named_parameters()}
    result = trainer.run()
    rank = fabric.global_rank
    losses = [row["loss"] for row in trainer.rows]
    torch.save((first, result.policy.state_dict(), losses), folder / f"{fabric.world_size}-{rank}.pt")
    fabric.barrier()
    leave_group()  # spawned processes leave without their exit handlers


def test_two_processes_have_the_gradient_of_one(tmp_path):
    gradients(Fabric(accelerator="cpu", devices=1), _new(tmp_path / "one"))
    two = Fabric(accelerator="cpu", devices=2, strategy="ddp_spawn")
    two.launch(gradients, _new(tmp_path / "two"))
    gradient, weights, losses = torch.load(tmp_path / "one" / "1-0.pt")
    for rank in (0, 1):
        other_gradient, other_weights, other_losses = torch.load(tmp_path / "two" / f"2-{rank}.pt")
        np.testing.assert_allclose(other_losses, losses, rtol=1e-4)  # that of all rows, not of a process's share
        for name, value in gradient.items():
            torch.testing.assert_close(other_gradient[name], value, rtol=1e-4, atol=1e-6)
        for name, value in weights.items():
            torch.testing.assert_close(other_weights[name], value, rtol=1e-3, atol=1e-4)
    assert load_policy(tmp_path / "two").kind == "mac"


def diverge(fabric, folder):
    """A run whose bad row is in the second process's share; what each process says."""
    torch.set_num_threads(1)
    settings = quickly(batch_size=64, steps=6, validations=1, save_seconds=0.0)
    trainer = Trainer(small("bc"), demonstrations(), settings, folder, seed=0, fabric=fabric, quiet=True)
    trainer.data.targets[trainer.shuffle.batch(0)[40]] = torch.nan
    with pytest.raises(TrainingDiverged, match="loss at step 0"):
        trainer.run()
    (folder / f"stopped-{fabric.global_rank}").touch()
    fabric.barrier()
    leave_group()


def test_all_processes_stop_when_the_loss_of_one_is_no_number(tmp_path):
    Fabric(accelerator="cpu", devices=2, strategy="ddp_spawn").launch(diverge, _new(tmp_path / "two"))
    assert {path.name for path in (tmp_path / "two").iterdir()} == {"stopped-0", "stopped-1", "diverged.json"}


def _new(folder):
    folder.mkdir()
    return folder


def test_a_batch_that_cannot_be_shared_is_refused(tmp_path):
    class Three:
        world_size, device = 3, torch.device("cpu")

    with pytest.raises(ValueError, match="batch_size 32 must be a multiple of the 3 processes"):
        Trainer(small("bc"), demonstrations(), quickly(), tmp_path, seed=0, fabric=Three())


# ---- parts ----


def test_every_row_comes_once_an_epoch():
    shuffle = Shuffle(10, 4, seed=0)
    rows = torch.cat([shuffle.batch(step) for step in range(10)])
    for epoch in range(4):
        assert sorted(rows[10 * epoch : 10 * (epoch + 1)].tolist()) == list(range(10))
    assert len(Shuffle(3, 8, seed=0).batch(5)) == 8
    assert torch.equal(Shuffle(10, 4, seed=0).batch(7), shuffle.batch(7))
    with pytest.raises(ValueError, match="no row"):
        Shuffle(0, 4, seed=0)


def test_streams_differ_by_seed_purpose_and_step():
    draws = [torch.rand(4, generator=stream(*key)) for key in ((0, "a", 0), (1, "a", 0), (0, "b", 0), (0, "a", 1))]
    assert len({tuple(draw.tolist()) for draw in draws}) == 4


def test_the_learning_rate_rises_and_falls():
    rates = [rate(step, 100, 0.1, "cosine") for step in range(100)]
    assert rates[:10] == sorted(rates[:10])
    assert rates[10:] == sorted(rates[10:], reverse=True)
    assert max(rates) == 1.0
    assert rates[-1] < 0.01
    assert rate(50, 100, 0.0, "constant") == 1.0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"optimizer": "sgd"}, "optimizer"),
        ({"steps": 0}, "either steps or epochs"),
        ({"epochs": 3}, "either steps or epochs"),
        ({"batch_size": 0}, "batch_size"),
        ({"validation": 1.0}, "validation must be in"),
        ({"learning_rate": -1.0}, "learning_rate must be at least 0"),
        ({"precision": "fp8"}, "precision"),
        ({"learning_rate": float("inf")}, "learning_rate must be at least 0"),
        ({"ema": True}, "ema must be in"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        TrainSettings(**settings)


def test_tensorboard_without_its_package_is_refused_before_anything_is_done(tmp_path, monkeypatch):
    monkeypatch.setattr(settings, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match="pip install tensorboard"):
        train(small("bc"), demonstrations(), quickly(tensorboard=True), tmp_path / "run", quiet=True)
    assert not (tmp_path / "run").exists()


def test_epochs_are_counted_in_rows():
    assert TrainSettings(steps=0, epochs=3, batch_size=100).total_steps(1000) == 30


# ---- the fork: the task where regression to the mean fails ----


def success(policy, operated=False, episodes=50):
    """The share of episodes that pass, alone or filling in what an operator with a side in mind leaves free."""
    envs = [Fork() for _ in range(episodes)]
    seen = np.stack([env.reset(seed=i)[0] for i, env in enumerate(envs)])
    operator = ForkExpert(OperatorDims.parse(1, 2), episodes)
    operator.reset(np.ones(episodes, bool), np.arange(episodes))
    won, running = np.zeros(episodes), np.ones(episodes, bool)
    while running.any():
        command = operator(seen)
        actions = policy.act(seen, *(command if operated else ()), generator=torch.Generator().manual_seed(0))
        for i in np.flatnonzero(running):
            seen[i], won[i], ended, _, _ = envs[i].step(actions[i])
            running[i] = not ended
    return won.mean()


def test_mac_passes_the_fork_alone_and_with_an_operator_and_bc_does_not(tmp_path):
    settings = TrainSettings(steps=800, batch_size=128, validations=1, accelerator="cpu")
    sizes = {"width": 128, "depth": 3}
    demos, policy = demonstrations(100), small("mac", **sizes, query_width=128, components=8)
    began = time.process_time()
    mac = train(policy, demos, settings, tmp_path / "mac", quiet=True)
    assert time.process_time() - began < 30
    bc = train(small("bc", **sizes), demos, settings, tmp_path / "bc", quiet=True)
    assert success(mac.policy) >= 0.95
    assert success(bc.policy) <= 0.2
    assert success(mac.policy, operated=True) >= 0.95
    assert success(bc.policy, operated=True) <= 0.2
