"""benchmark.py and infill.py as a user would run them, on a text and a table made here."""

import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest

from mac_policy.cli.benchmark import caveat_of_preset, changed_options, make, read_benchmark
from mac_policy.rows.checkpoint import load
from tests.scripts.helpers import ROOT, composed, run_here, run_script, script_environment

WORDS = ["the", "cat", "sat", "on", "a", "mat", "and", "dog", "ran", "to", "it"]
SMOKE = ("preset=smoke", "seeds=[0]", "arms=[ardm,mac]")


@pytest.fixture(scope="module")
def user(tmp_path_factory):
    """A folder with a prefix of a text like text8 and a table like energy."""
    folder = tmp_path_factory.mktemp("user")
    text = " ".join(np.random.default_rng(0).choice(WORDS, 3000))
    (folder / "data" / "text8").mkdir(parents=True)
    (folder / "data" / "text8" / f"text8_first_{len(text)}").write_text(text)
    (folder / "data" / "energy").mkdir()
    rows = np.random.default_rng(1).normal(size=(768, 9))
    (folder / "data" / "energy" / "data.txt").write_text("\n".join(" ".join(f"{v:.4f}" for v in row) for row in rows))
    return folder


def run(user, name, *options):
    return run_here(name, *options, cwd=user, MAC_DATA=str(user / "data"))


@pytest.fixture(scope="module")
def trained(user):
    return run_script("benchmark.py", *SMOKE, cwd=user, MAC_DATA=str(user / "data"), OMP_NUM_THREADS="1")


def test_it_leaves_a_table_results_and_curves(user, trained):
    code, out, err = trained
    assert code == 0, err
    path = user / out.strip().splitlines()[-1]
    assert path == user / "runs/benchmark/text8-smoke/results.json"
    record = json.loads(path.read_text())
    assert list(record["arms"]) == ["ardm", "mac"]
    assert record["dataset"]["note"].startswith("a prefix of ")
    assert (path.parent / "curves.png").stat().st_size > 5000
    assert "a prefix of" in out
    assert re.search(r"│ mac +│ +\d\.\d{4} \[", out)
    assert load(path.parent / "mac-s0")[1].method == "mac"


def test_a_table_of_ones_own_is_compared(user):
    rows = np.random.default_rng(2).normal(size=(50, 4))
    (user / "my.csv").write_text("a,b,c,d\n" + "\n".join(",".join(f"{v:.4f}" for v in row) for row in rows))
    options = ("benchmark=table", "data.path=my.csv", "preset=smoke", "seeds=[0]", "arms=[mac]")
    code, _, err = run(user, "benchmark.py", *options)
    assert code == 0, err
    record = json.loads((user / "runs/benchmark/table-smoke/results.json").read_text())
    assert record["dataset"]["variables"] == 4
    assert {"joint", "marginal", "conditional"} <= set(record["arms"]["mac"]["metrics"])
    code, _, err = run(user, "benchmark.py", "benchmark=table")
    assert code == 2
    assert "data.path=... is missing" in err


def test_the_same_command_again_trains_nothing_and_a_further_seed_only_itself(user, trained):
    code, out, err = run(user, "benchmark.py", *SMOKE)
    assert code == 0, err
    assert "steps/s" not in out
    code, out, err = run(user, "benchmark.py", "preset=smoke", "arms=[ardm,mac]", "seeds=[0,1]")
    assert code == 0, err
    assert "ardm, seed 1" in out
    assert "seed 0" not in out
    code, _, err = run(user, "benchmark.py", *SMOKE, "training.steps=7")
    assert code == 2
    assert "training.steps was 6 and is now 7" in err


def test_two_processes_train_and_evaluate_together(user, trained):
    command = [
        sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "scripts/benchmark.py",
        "preset=smoke", "seeds=[0]", "arms=[mac]", "name=two", f"runs={user}/runs",
        "training.devices=2", "training.strategy=ddp",
    ]  # fmt: skip
    environment = script_environment(user, MAC_DATA=str(user / "data"), OMP_NUM_THREADS="1")
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    two = json.loads((user / "runs/two/results.json").read_text())["arms"]["mac"]["metrics"]
    one = json.loads((user / "runs/benchmark/text8-smoke/results.json").read_text())["arms"]["mac"]["metrics"]
    for name in one:
        assert two[name]["per_seed"][0] == pytest.approx(one[name]["per_seed"][0], rel=2e-3)


def test_a_table_has_the_likelihoods_of_its_proposal_too(user):
    code, out, err = run(user, "benchmark.py", "benchmark=energy", *SMOKE)
    assert code == 0, err
    assert "the proposal's density" in " ".join(out.split())
    record = json.loads((user / "runs/benchmark/energy-smoke/results.json").read_text())
    assert {"joint", "joint_proposal", "joint_grid", "marginal-3"} <= set(record["arms"]["mac"]["metrics"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("benchmark=text9",), "error: unknown benchmark 'text9'; allowed are .* did you mean 'text8'"),
        (("preset=papr",), "error: unknown preset 'papr'; .* did you mean 'paper'"),
        (("arms=[mack]",), "error: unknown arm 'mack'; .* did you mean 'mac'"),
        (("seeds=[0,0]",), r"error: seeds must be one or more different numbers, got \[0, 0\]"),
        (("training.optimizer=sgd",), "error: unknown training.optimizer 'sgd'"),
        (("network.widht=3",), "error: unknown setting of the network 'widht'"),
        (("+network.widht=3",), "error: unknown setting of the network 'widht'"),
        (("netwrok.width=3",), "error: unknown option 'netwrok'; .* did you mean 'network'"),
        (("+seed=3",), "error: unknown option 'seed'; .* did you mean 'seeds'"),
        (("~seeds",), "error: ~seeds: options cannot be removed; write seeds=value"),
        (("seeds=0,1",), r"error: seeds=0,1 is a sweep: add -m .*, or write seeds=\[0,1\] for a list"),
        (("seeds=[0",), r"error: 'seeds=\[0' cannot be read as key=value: \[ and \] do not match"),
        (("name='a",), 'error: "name=\'a" cannot be read as key=value: a quotation mark is missing'),
        (("seeds 0",), "error: 'seeds 0' cannot be read as key=value: there is no ="),
        (("=3",), "error: '=3' cannot be read as key=value: there is no key"),
        (("runs=a:b c=d",), "cannot be read as key=value: write a list as runs=.*two pairs of quotes"),
        (("hydra.rnu.dir=x",), "error: unknown option 'hydra.rnu'; .* did you mean 'hydra.run'"),
        (("runs=${nowhere}",), "error: runs: Interpolation key 'nowhere' not found"),
        (("runs=null",), "error: runs must be a path, got null"),
        (("name=[1]",), r"error: name must be .*, got \[1\]"),
        (("resume=no",), "error: resume must be true or false, got 'no'"),
        (("training.tensorboard=maybe",), "error: training.tensorboard must be true or false, got 'maybe'"),
        (("hydra/launcher=slurm",), "error: unknown hydra/launcher 'slurm'"),
        (("--mulitrun",), "error: unknown flag '--mulitrun'; .* did you mean '--multirun'"),
        (("--training.steps", "3"), "error: unknown flag '--training.steps'; .* no dashes: training.steps=value"),
        (("benchmark=mnist",), "error: mnist: no train-images-idx3-ubyte.*data.download=true"),
        (("arms=sfarm",), r"error: arms must be a list such as \[a,b\], got 'sfarm'; write arms=\[sfarm\]"),
        (("data.chunk=100000",), "error: .* too few for a chunk of 100000"),
        (("training.step=3",), "error: unknown key in the training settings 'step'; .* did you mean 'steps'"),
    ],
)
def test_a_mistake_is_one_clean_message(user, options, message):
    code, _, err = run_here("benchmark", "preset=smoke", "name=wrong", *options, cwd=user, MAC_DATA=str(user / "data"))
    assert code == 2
    assert re.search(message, err, re.DOTALL), err
    assert len(err.splitlines()) == 1 or "How to get it" in err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("seeds=3",), "seeds must be a list such as [a,b], got 3; write seeds=[3]"),
        (("arms=sfarm",), "arms must be a list such as [a,b], got 'sfarm'; write arms=[sfarm]"),
        (
            ("benchmark=sfarm/tables", "sets=yacht"),
            "sets must be a list such as [a,b], got 'yacht'; write sets=[yacht]",
        ),
        (("benchmark=sfarm/tables", "data=3"), "data must be a mapping such as {setting: value}, got 3"),
        (("evaluation.missing=left",), "evaluation.missing must be a list such as [a,b], got 'left'"),
        (("evaluation.missing=3",), "evaluation.missing must be a list such as [a,b], got 3"),
        (("evaluation.cardinalities=3",), "evaluation.cardinalities must be a list such as [a,b], got 3"),
        (("evaluation.queries=joint",), "evaluation.queries must be a list such as [a,b], got 'joint'"),
        (("+baselines.vae=3",), "baselines.vae must be a mapping such as {setting: value}, got 3"),
        (("training=3",), "training must be a mapping such as {setting: value}, got 3; write training.setting=value"),
    ],
)
def test_one_where_several_belong_is_refused_with_what_to_write(options, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        made(*options)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("preset=smoke",), "preset=smoke trains for a few steps"),
        (("preset=cpu",), "preset=cpu trains for less than the paper"),
        (
            ("preset=paper", "training.steps=3", "network.width=8"),
            "other than those of preset=paper: network, training",
        ),
        (("preset=paper", "seeds=[1]"), None),
    ],
)
def test_a_table_beside_a_papers_numbers_says_what_was_trained(options, said):
    found = caveat_of_preset(changed_options(composed("benchmark", "benchmark=sfarm/tables", *options)))
    assert found is None if said is None else said in found


def made(*options):
    """The comparisons that a command line describes, without a process of their own."""
    chosen = changed_options(composed("benchmark", *options))
    return make(chosen, read_benchmark(chosen.benchmark))


@pytest.mark.parametrize("plus", ["", "+", "++"])
def test_a_setting_is_set_with_and_without_a_plus(plus):
    found = made(f"{plus}network.width=24", f"{plus}training.clip=0.5", f"{plus}head.encoding=scalar", "preset=smoke")[
        0
    ]
    assert found.networks["set"]["width"] == 24
    assert found.networks["set"]["kind"] == "transformer"
    assert found.budget.training.clip == 0.5
    assert found.head == {"kind": "categorical", "encoding": "scalar"}


def test_holes_of_a_text_are_filled(user, trained):
    arm = "run=runs/benchmark/text8-smoke/mac-s0"
    code, out, err = run(user, "infill.py", arm, "text='the c_t s_t'")
    assert code == 0, err
    shown, filled = out.splitlines()
    assert shown == "the c_t s_t"
    assert re.fullmatch(r"the c[a-z ]t s[a-z ]t", filled)
    code, out, err = run(user, "infill.py", arm, "rows=2", "pattern=end", "ratio=0.25")
    assert code == 0, err
    texts = [block.splitlines() for block in out.strip("\n").split("\n\n")]
    assert [[len(line) for line in lines] for lines in texts] == [[12] * 3] * 2
    assert all(lines[1] == lines[0][:9] + "___" and lines[2][:9] == lines[0][:9] for lines in texts)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "error: run=... is missing"),
        (("run=nowhere",), "error: nowhere is not the folder of a trained arm"),
        (("run=runs/benchmark/text8-smoke/mac-s0", "text='5 cats'"), "error: the text has 1 characters .* '5'"),
        (("run=runs/benchmark/text8-smoke/mac-s0", "text="), "error: the text is empty"),
        (("run=runs/benchmark/text8-smoke/mac-s0", "mode=interior"), "error: mode 'interior': this model is not"),
        (("run=runs/benchmark/text8-smoke/mac-s0", "text=a_", "steps=0"), "error: steps must be a whole number"),
        (("run=runs/benchmark/text8-smoke/mac-s0", "pattern=left"), "error: pattern 'left' is for images"),
        (
            ("run=runs/benchmark/text8-smoke/mac-s0", "image=x.png"),
            "error: image=x.png cannot be used: .* is an arm for text",
        ),
        (
            ("run=runs/benchmark/text8-smoke/mac-s0", "temperature=0"),
            "error: temperature must be a finite number above 0",
        ),
    ],
)
def test_a_mistake_with_infill_is_one_line(user, trained, options, message):
    code, _, err = run(user, "infill.py", *options)
    assert code == 2
    assert re.search(message, err), err
    assert "Traceback" not in err


def test_help_explains_the_options(user):
    for script, words in (
        ("benchmark.py", ("arms", "preset", "evaluation.*", "torchrun")),
        ("infill.py", ("pattern",)),
    ):
        code, out, _ = run(user, script, "--help")
        assert code == 0
        assert all(word in out for word in words)


# ---- the papers' sizes ----


@pytest.mark.slow
@pytest.mark.parametrize("benchmark", ["text8", "cifar10"])
def test_a_configuration_of_the_papers_size_starts_and_resumes(user, tmp_path, benchmark):
    """Two steps at batch 2, killed after the first save, then to the end."""
    root = os.environ.get("MAC_DATA") if benchmark == "cifar10" else str(user / "data")
    if not root:
        pytest.skip("MAC_DATA does not name a folder with CIFAR-10")
    options = (
        f"benchmark={benchmark}", "preset=paper", "arms=[mac]", f"runs={tmp_path}", f"data.root={root}",
        "training.epochs=0", "training.steps=2", "training.batch_size=2", "training.validations=1",
        "training.save_seconds=0", "evaluation.rows=1", "evaluation.steps=1", "evaluation.curve_rows=1",
        "evaluation.curve_steps=1", "training.accelerator=cpu",
    )  # fmt: skip
    command = [sys.executable, str(ROOT / "scripts" / "benchmark.py"), *options]
    first = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    folder = tmp_path / f"{benchmark}-paper" / "mac-s0"
    while not (folder / "config.json").exists():
        assert first.poll() is None, first.stderr.read()
    first.kill()
    first.wait()
    code, out, err = run_script("benchmark.py", *options, cwd=tmp_path)
    assert code == 0, err
    assert "resumed" in out
    record = json.loads((tmp_path / f"{benchmark}-paper" / "results.json").read_text())
    assert record["arms"]["mac"]["steps"] == [2]
    parameters = sum(p.numel() for p in load(folder)[0].parameters())
    assert parameters == {"text8": 86_473_755, "cifar10": 126_694_528}[benchmark]
