"""A run that is killed at any moment goes on to the weights of one that never was."""

import csv
import json
import math
import time

import pytest
import torch
from safetensors.torch import save_file

from mac_policy.common import files as atomic
from mac_policy.common.files import CheckpointError
from mac_policy.common.locks import InUse, locked
from mac_policy.policies.checkpoint import load_policy, read_config
from mac_policy.policies.fit import Trainer, train
from mac_policy.training import metrics, state
from mac_policy.training.fabric import make_fabric
from mac_policy.training.state import BEFORE, STATE, ResumeError
from tests.training.helpers import demonstrations, quickly, same, small, start

RUN = """
from mac_policy.policies.fit import train
train(small({kind!r}), demonstrations(), quickly(steps=300, ema={ema}, save_seconds=0.03), {folder!r}, quiet=True)
"""


@pytest.mark.parametrize(("kind", "ema"), [("mac", 0.99), ("bc", 0.0)])
def test_killed_with_no_warning_and_resumed_it_ends_with_the_same_weights(tmp_path, kind, ema):
    settings = quickly(steps=300, ema=ema, save_seconds=0.03)
    whole = train(small(kind), demonstrations(), settings, tmp_path / "whole", quiet=True)
    folder = tmp_path / "killed"
    process = start(RUN.format(kind=kind, ema=ema, folder=str(folder)))
    while not (folder / STATE).exists():
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.005)
    process.kill()  # the moment after the first save began to be visible; often within the next one
    process.wait()
    resumed = train(small(kind), demonstrations(), settings, folder, quiet=True)
    assert 0 < resumed.resumed_from < 300
    assert same(resumed.policy, whole.policy)
    assert same(load_policy(folder), load_policy(tmp_path / "whole"))
    timeless = [
        [{k: v for k, v in row.items() if k not in ("seconds", "rate")} for row in csv.DictReader(file.open())]
        for file in (folder / "metrics.csv", tmp_path / "whole" / "metrics.csv")
    ]
    assert timeless[0] == timeless[1]
    assert len(timeless[0]) == 3


def stop_after(trainer, steps):
    """Run a trainer some steps and save, as if it had been killed then."""
    for _ in range(steps):
        trainer.advance()
    trainer.folder.mkdir(parents=True, exist_ok=True)
    trainer.save()


def trainer(folder, settings, seed=0, **policy):
    return Trainer(
        small("mac", seed, **policy),
        demonstrations(),
        settings,
        folder,
        seed=seed,
        fabric=make_fabric(settings),
        quiet=True,
    )


@pytest.mark.parametrize("at", [1, 20, 59])
def test_stopped_at_any_step(tmp_path, at):
    settings = quickly(ema=0.99)
    stop_after(trainer(tmp_path / "a", settings), at)
    resumed = train(small(), demonstrations(), settings, tmp_path / "a", quiet=True)
    whole = train(small(), demonstrations(), settings, tmp_path / "b", quiet=True)
    assert resumed.resumed_from == at
    assert same(resumed.policy, whole.policy)


class Killed(BaseException):
    """The end of a process, as far as its files go."""


def die_at_write(monkeypatch, number):
    """The process ends just before this write (0: never); the list of names written."""
    real, names = atomic.write_bytes, []

    def write(path, data):
        names.append(path.name)
        if len(names) == number:
            raise Killed
        real(path, data)

    monkeypatch.setattr(atomic, "write_bytes", write)
    return names


def test_killed_before_any_of_its_writes_it_ends_with_the_same_weights(tmp_path, monkeypatch):
    settings = quickly(steps=4, validations=2, save_seconds=0.0, ema=0.5)
    names = die_at_write(monkeypatch, 0)
    whole = train(small("bc"), demonstrations(), settings, tmp_path / "whole", quiet=True)
    total = len(names)
    assert total > 15
    files = {path.name for path in (tmp_path / "whole").iterdir()}
    for number in range(1, total + 1):
        folder = tmp_path / str(number)
        die_at_write(monkeypatch, number)
        with pytest.raises(Killed):
            train(small("bc"), demonstrations(), settings, folder, quiet=True)
        monkeypatch.undo()
        resumed = train(small("bc"), demonstrations(), settings, folder, quiet=True)
        assert same(resumed.policy, whole.policy), number
        assert same(load_policy(folder), whole.policy), number
        assert {path.name for path in folder.iterdir()} == files, number


@pytest.mark.parametrize("settings", [{"history": 2, "horizon": 3, "displacement": 2.0}, {"observation_noise": 0.1}])
def test_noise_and_displacement_resume_to_the_same_weights(tmp_path, settings):
    stop_after(trainer(tmp_path / "a", quickly(), **settings), 20)
    resumed = train(small(**settings), demonstrations(), quickly(), tmp_path / "a", quiet=True)
    whole = train(small(**settings), demonstrations(), quickly(), tmp_path / "b", quiet=True)
    assert resumed.resumed_from == 20
    assert same(resumed.policy, whole.policy)


def test_a_state_that_was_being_written_is_ignored_and_removed(tmp_path):
    settings = quickly()
    stop_after(trainer(tmp_path, settings), 5)
    (tmp_path / f".{STATE}.123.tmp").write_bytes(b"half")
    assert train(small(), demonstrations(), settings, tmp_path, quiet=True).resumed_from == 5
    assert not list(tmp_path.glob(".*"))


def test_a_damaged_state_is_refused_by_name(tmp_path):
    stop_after(trainer(tmp_path, quickly()), 5)
    path = tmp_path / STATE
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(ResumeError, match=r"state\.safetensors is truncated or damaged.*resume=false"):
        train(small(), demonstrations(), quickly(), tmp_path, quiet=True)


def flip(path, place):
    data = bytearray(path.read_bytes())
    data[place] ^= 4
    path.write_bytes(data)


@pytest.mark.parametrize("part", [0.001, 0.3, 0.6, 0.99])
def test_a_flipped_bit_is_found_and_the_state_before_is_used(tmp_path, part):
    settings = quickly(ema=0.99)
    whole = train(small(), demonstrations(), settings, tmp_path / "whole", quiet=True)
    run = trainer(tmp_path / "run", settings)
    stop_after(run, 5)
    stop_after(run, 4)
    path = tmp_path / "run" / STATE
    flip(path, int(part * path.stat().st_size))
    resumed = train(small(), demonstrations(), settings, tmp_path / "run", quiet=True)
    assert resumed.resumed_from == 5
    assert same(resumed.policy, whole.policy)
    assert not (tmp_path / "run" / BEFORE).exists()


def test_two_damaged_states_are_refused_with_what_to_do(tmp_path):
    run = trainer(tmp_path, quickly())
    stop_after(run, 5)
    stop_after(run, 4)
    for name in (STATE, BEFORE):
        flip(tmp_path / name, 3000)
    with pytest.raises(ResumeError, match=rf"remove {STATE} and {BEFORE} from .*resume=false, to start afresh"):
        train(small(), demonstrations(), quickly(), tmp_path, quiet=True)


def changed(folder, tensors=None, **facts):
    """The state with other facts and tensors, in a file that is in itself intact."""
    found, notes = atomic.read_tensors(folder / STATE)
    known = json.loads(notes["facts"]) | facts
    atomic.write_tensors(folder / STATE, found | (tensors or {}), {"facts": json.dumps(known)})


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"step": -5}, "step must be a whole number of at least 0, got -5"),
        ({"step": 10**9}, "is of step 1000000000 of 60"),
        ({"step": 7}, "is not of step 7"),
        ({"seconds": "long"}, "seconds must be"),
        ({"best": None}, "best must be a number, got null"),
        ({"rows": [1]}, r"rows\[0\] must be a mapping"),
        ({"fingerprint": []}, "fingerprint must be a mapping"),
    ],
)
def test_facts_that_no_run_has_are_refused(tmp_path, facts, message):
    stop_after(trainer(tmp_path, quickly()), 5)
    changed(tmp_path, **facts)
    with pytest.raises(ResumeError, match=message):
        train(small(), demonstrations(), quickly(), tmp_path, quiet=True)


def test_a_state_of_an_earlier_version_has_no_checksum_and_is_resumed(tmp_path):
    settings = quickly()
    stop_after(trainer(tmp_path / "old", settings), 5)
    found, notes = atomic.read_tensors(tmp_path / "old" / STATE)
    save_file(found, tmp_path / "old" / STATE, notes)
    resumed = train(small(), demonstrations(), settings, tmp_path / "old", quiet=True)
    assert resumed.resumed_from == 5
    assert same(resumed.policy, train(small(), demonstrations(), settings, tmp_path / "new", quiet=True).policy)
    missing = {name: tensor for name, tensor in found.items() if name != "optimizer.3.exp_avg"}
    (tmp_path / "cut").mkdir()
    for wrong, message in (
        (missing, "lacks moments of parameter 3"),
        (found | {"optimizer.2.step": torch.zeros(())}, r"optimizer\.2\.step is not from 1 to 5"),
        (found | {"optimizer.2.step": torch.tensor(6.0)}, "the optimiser made another number"),
    ):
        save_file(wrong, tmp_path / "cut" / STATE, notes)
        with pytest.raises(ResumeError, match=message):
            train(small(), demonstrations(), settings, tmp_path / "cut", quiet=True)


def test_the_spaces_of_a_finished_run_that_are_none_are_refused_by_name(tmp_path):
    train(small("bc"), demonstrations(), quickly(), tmp_path, quiet=True)
    path = tmp_path / "config.json"
    config = json.loads(path.read_text())
    config["spaces"]["action"]["low"][0] = 1e30
    path.write_text(json.dumps(config))
    with pytest.raises(CheckpointError, match=r"config\.json: low must not be above high"):
        train(small("bc"), demonstrations(), quickly(), tmp_path, quiet=True)


def test_a_full_disk_while_the_best_weights_are_written_costs_nothing(tmp_path, monkeypatch):
    settings = quickly(validations=6, weights="best", save_seconds=0.0)
    whole = train(small(), demonstrations(), settings, tmp_path / "whole", quiet=True)
    real, failed = atomic.write_tensors, []

    def full_twice(path, *rest):
        if path.name == "best.safetensors" and len(failed) < 2:
            failed.append(path)
            raise OSError(28, "No space left on device", str(path))
        real(path, *rest)

    monkeypatch.setattr(atomic, "write_tensors", full_twice)
    through = train(small(), demonstrations(), settings, tmp_path / "full", quiet=True)
    assert len(failed) == 2
    assert same(through.policy, whole.policy)
    assert same(load_policy(tmp_path / "full", weights="best"), load_policy(tmp_path / "whole", weights="best"))


def test_two_runs_in_one_folder_are_refused_while_the_first_lives(tmp_path):
    with locked(tmp_path), pytest.raises(InUse, match="is in use by another process: wait until it ends"):
        train(small("bc"), demonstrations(), quickly(), tmp_path, quiet=True)
    assert train(small("bc"), demonstrations(), quickly(), tmp_path, quiet=True).steps == 60


def test_another_run_in_the_same_folder_is_refused(tmp_path):
    stop_after(trainer(tmp_path, quickly()), 5)
    for other, message in (
        ((small(), quickly(learning_rate=0.5)), r"training.learning_rate was 0.001 and is now 0.5"),
        ((small("mac", components=5), quickly()), r"settings.components was 4 and is now 5"),
        ((small("bc"), quickly()), r"policy was 'mac' and is now 'bc'"),
    ):
        policy, settings = other
        with pytest.raises(ResumeError, match=message):
            train(policy, demonstrations(), settings, tmp_path, quiet=True)
    with pytest.raises(ResumeError, match="sha256"):
        train(small(), demonstrations(21), quickly(), tmp_path, quiet=True)
    assert train(small(), demonstrations(), quickly(save_seconds=1.0), tmp_path, quiet=True).resumed_from == 5


def test_a_finished_run_is_loaded_and_not_trained_again(tmp_path):
    first = train(small(), demonstrations(), quickly(), tmp_path, quiet=True)
    assert read_config(tmp_path)["training"]["finished"] is True
    assert not (tmp_path / STATE).exists()
    again = train(small(), demonstrations(), quickly(), tmp_path, quiet=True)
    assert again.resumed_from == again.steps == 60
    assert same(again.policy, first.policy)
    with pytest.raises(ResumeError, match="steps was 60 and is now 61"):
        train(small(), demonstrations(), quickly(steps=61), tmp_path, quiet=True)
    afresh = train(small(), demonstrations(), quickly(steps=61), tmp_path, resume=False, quiet=True)
    assert afresh.resumed_from == 0


def test_a_disk_that_fills_up_during_training_costs_nothing_but_that_save(tmp_path, monkeypatch):
    settings = quickly(save_seconds=0.0)
    whole = train(small(), demonstrations(), settings, tmp_path / "whole", quiet=True)
    real, calls = state.save_state, []

    def full_now_and_then(folder, *rest):
        calls.append(folder)
        if len(calls) % 2:
            raise OSError(28, "No space left on device")
        real(folder, *rest)

    monkeypatch.setattr(state, "save_state", full_now_and_then)
    through = train(small(), demonstrations(), settings, tmp_path / "full", quiet=True)
    assert len(calls) > 10
    assert same(through.policy, whole.policy)


def test_a_table_that_cannot_be_written_does_not_stop_the_run(tmp_path, monkeypatch):
    def full(path, rows):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(metrics, "write_csv", full)
    result = train(small(), demonstrations(), quickly(), tmp_path, quiet=True)
    assert result.steps == 60
    assert same(load_policy(tmp_path), result.policy)


def test_a_validation_that_is_no_number_leaves_plain_json(tmp_path, monkeypatch):
    monkeypatch.setattr(Trainer, "validate", lambda *_: {"validation_loss": math.nan})
    train(small(), demonstrations(), quickly(), tmp_path, quiet=True)

    def refuse(name):
        raise AssertionError(name)

    config = json.loads((tmp_path / "config.json").read_text(), parse_constant=refuse)
    assert config["training"]["validation_loss"] is None
    assert math.isnan(train(small(), demonstrations(), quickly(), tmp_path, quiet=True).validation_loss)


def test_the_states_of_a_run_that_was_killed_after_its_last_write_are_removed(tmp_path):
    stop_after(trainer(tmp_path, quickly()), 5)
    left = (tmp_path / STATE).read_bytes()
    whole = train(small(), demonstrations(), quickly(), tmp_path, quiet=True)
    for name in (STATE, BEFORE):
        (tmp_path / name).write_bytes(left)
    with locked(tmp_path):  # of another process, which may be starting afresh
        assert train(small(), demonstrations(), quickly(), tmp_path, quiet=True).resumed_from == whole.steps
    assert (tmp_path / STATE).exists()
    again = train(small(), demonstrations(), quickly(), tmp_path, quiet=True)
    assert not [name for name in (STATE, BEFORE) if (tmp_path / name).exists()]
    assert again.resumed_from == whole.steps
    assert same(again.policy, whole.policy)


def test_starting_afresh_leaves_nothing_of_the_run_before(tmp_path, monkeypatch):
    train(small(), demonstrations(), quickly(), tmp_path, quiet=True)
    die_at_write(monkeypatch, 1)
    with pytest.raises(Killed):
        train(small(), demonstrations(), quickly(), tmp_path, resume=False, quiet=True)
    assert not list(tmp_path.iterdir())


def test_the_saved_facts_are_plain_json(tmp_path):
    stop_after(trainer(tmp_path, quickly(validation=0.0)), 3)
    found = state.read_state(tmp_path)
    assert found.facts.step == 3
    assert math.isinf(found.facts.best)
    assert state.read_state(tmp_path / "nowhere") is None


LOSSES = [3.0, 1.0, 4.0, 2.0, 5.0, 6.0]


class ScriptedLosses(Trainer):
    """A trainer whose validation losses are given."""

    def validate(self):
        return {"validation_loss": LOSSES[self.step // 10 - 1]}


@pytest.mark.parametrize(("at", "patience"), [(25, 0), (35, 0), (45, 0), (25, 3), (35, 3)])
def test_a_resumed_run_remembers_the_best_loss_and_how_long_ago_it_was(tmp_path, monkeypatch, at, patience):
    settings = quickly(steps=60, validations=6, weights="best", patience=patience, save_seconds=0.0)

    def run(name):
        made = ScriptedLosses(
            small(), demonstrations(), settings, tmp_path / name, seed=0, fabric=make_fabric(settings), quiet=True
        )
        made.go()
        return made

    whole = run("whole")
    assert (whole.best, whole.step) == (1.0, 50 if patience else 60)
    advance = ScriptedLosses.advance

    def killed(self):
        if self.step == at:
            raise Killed
        return advance(self)

    monkeypatch.setattr(ScriptedLosses, "advance", killed)
    with pytest.raises(Killed):
        run("killed")
    monkeypatch.undo()
    resumed = run("killed")
    assert resumed.resumed_from == at
    assert (resumed.best, resumed.stale, resumed.step) == (whole.best, whole.stale, whole.step)
    assert same(load_policy(tmp_path / "killed"), load_policy(tmp_path / "whole"))
