"""One process on a CPU trains as Lightning Fabric does, and needs torch alone."""

import subprocess
import sys
import warnings

import pytest
from lightning_fabric import Fabric

from mac_policy.policies.fit import train
from mac_policy.training import fabric as fabrics
from mac_policy.training.fabric import check_processes, make_fabric
from mac_policy.training.metrics import write_curve
from mac_policy.training.progress import Reporter
from tests.training.helpers import demonstrations, quickly, same, small

HEAVY = ("lightning_fabric", "rich", "matplotlib", "gymnasium", "h5py", "scipy", "sklearn", "hydra", "minari")
IMPUTE = f"""
import sys
sys.modules.update(dict.fromkeys({HEAVY}))  # an import of one of these fails, as where it is not installed
import numpy as np
from mac_policy import Imputer
rows = np.random.default_rng(0).normal(size=(60, 3))
rows[::4, 1] = np.nan
filled = Imputer(steps=5, width=8, verbose=True, random_state=0).fit_transform(rows)
assert np.isfinite(filled).all()
print([name for name in {HEAVY} if sys.modules[name] is not None])
"""


@pytest.mark.parametrize(("precision", "name"), [("fp32", "32-true"), ("bf16", "bf16-mixed")])
@pytest.mark.parametrize("kind", ["mac", "bc"])
def test_the_weights_are_those_of_lightning_bit_by_bit(tmp_path, kind, precision, name):
    settings = quickly(steps=20, precision=precision)
    trained = [
        train(small(kind), demonstrations(), settings, tmp_path / str(number), fabric=fabric, quiet=True).policy
        for number, fabric in enumerate((make_fabric(settings), Fabric(accelerator="cpu", devices=1, precision=name)))
    ]
    assert same(*trained)


@pytest.mark.parametrize(
    ("settings", "one"),
    [({}, True), ({"accelerator": "auto"}, True), ({"strategy": "ddp"}, False), ({"accelerator": "gpu"}, False)],
)
def test_lightning_is_for_all_but_one_process_on_a_cpu(monkeypatch, settings, one):
    monkeypatch.setattr(fabrics.torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(fabrics, "find_spec", lambda name: None)
    if one:
        assert isinstance(make_fabric(quickly(**settings)), fabrics.Fabric)
    else:
        with pytest.raises(ValueError, match="need the package lightning-fabric"):
            make_fabric(quickly(**settings))


def test_an_imputer_trains_without_lightning_rich_and_matplotlib():
    done = subprocess.run([sys.executable, "-c", IMPUTE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "imputer 5/5" in done.stdout
    assert done.stdout.splitlines()[-1] == "[]"


def test_without_matplotlib_there_is_a_warning_and_no_picture(tmp_path, monkeypatch):
    monkeypatch.setattr("mac_policy.training.metrics.find_spec", lambda name: None)
    with pytest.warns(UserWarning, match=r"matplotlib is not installed: curve\.png is not written"):
        write_curve(tmp_path / "curve.png", [{"step": 1, "loss": 0.5}], "title")
    assert not list(tmp_path.iterdir())


def test_without_rich_a_terminal_gets_lines(capsys, monkeypatch):
    monkeypatch.setattr("mac_policy.training.progress.find_spec", lambda name: None)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    with warnings.catch_warnings(), Reporter("run", 10, 0) as reporter:
        warnings.simplefilter("error")
        reporter.step(10, 0.5)
        reporter.line("loss 0.5")
    assert "run 10/10: loss 0.5" in capsys.readouterr().out


@pytest.mark.parametrize("devices", [1000, "1000", 10**6])
def test_a_cpu_is_not_flooded_with_processes(devices):
    with pytest.raises(ValueError, match=rf"training\.devices must be at most \d+ .* got {devices}"):
        check_processes(devices)


@pytest.mark.parametrize("devices", [1, 2, "2", "auto", "0,1", -1])
def test_a_few_processes_may_share_a_cpu(devices):
    check_processes(devices)
