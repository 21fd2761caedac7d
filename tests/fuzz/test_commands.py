"""Options of wrong types, sizes and names: every command refuses them in a line that names the option."""

import contextlib
import copy
import io
import random

import numpy as np
import pytest

from mac_policy.rows.sets.row_set import RowSet
from tests.fuzz.outcome import outcome, started
from tests.fuzz.stops import stopped
from tests.scripts.helpers import command, composed, run_here, run_script

SEED = 18
COMMANDS = {
    "train": ("train_policy", "task=fork"),
    "train with labels": ("train_policy", "task=kitchen-intent"),
    "evaluate": ("shared_autonomy", "task=fork", "operator=expert", "arms=[operator,zeros]", "operator_dims=1"),
    "evaluate noisy": (
        "shared_autonomy", "task=fork", "operator=noisy", "operator.inner=expert", "arms=[operator,zeros]",
        "operator_dims=1",
    ),
    "collect": ("collect_demos", "task=fork"),
    "inspect": ("inspect_data", "dataset=fork"),
    "benchmark of tables": ("benchmark", "benchmark=yacht"),
    "benchmark of images": ("benchmark", "benchmark=mnist"),
    "acquire": ("acquire",),
    "infill": ("infill", "run=x"),
    "completions": ("completions", "run=x"),
    "few steps": ("few_steps", "run=x"),
    "generation": ("generation", "run=x"),
    "mask distribution": ("mask_distribution", "n=3"),
}  # fmt: skip
NUMBERS = (-3, 1.5, 10**30, float("nan"), float("inf"), True)
WRONG = (None, "", "xyz", "../../x", "a\0b", [], [1], [[{}]], {"a": 1}, *NUMBERS)
PATHS = {"runs", "out", "run", "path", "root", "image"}
NAMES = {"name", "mac", "bc", "dataset_id", "dataset"}
TEXTS = {"author", "author_email", "code_permalink", "text", "mode", "pattern"}
SECTIONS = {
    "data", "network", "path_network", "head", "baselines", "regions", "order", "variation", "training", "evaluation",
}  # fmt: skip
CHECKED_WITH_THE_DATA = {"network", "path_network", "head", "regions", "order"}
NULL = {"min_log_std", "belief_change", "belief_tempering", "arms", "steps", *SECTIONS}
NUMBERS_OR_NULL = {"belief_tempering", "temperature", "max_change", "honest_noise", "honest_floor"}
LISTS_OF_NUMBERS = {"seeds", "training_seeds", "target", "steps", "operator_dims", "order", "rows"}
EMPTY_LISTS = {"missing", "masks", "rows", "order", "subsets"}


def leaves(config, prefix=()):
    """The place and the default of every option, also of the mappings that hold options."""
    for name, value in config.items():
        if name != "presets":
            yield (*prefix, name), value
            if isinstance(value, dict):
                yield from leaves(value, (*prefix, name))


def changed(config, place, value):
    config = copy.deepcopy(config)
    within = config
    for name in place[:-1]:
        within = within[name]
    within[place[-1]] = value
    return config


def may_be(name, default, value):
    """Whether an option with this name and default may have this value: a table of its own, not that of the code."""
    if value is None:
        return default is None or name in NULL
    if isinstance(value, bool):
        return isinstance(default, bool) or name in ("labels", "video")
    if isinstance(value, dict):
        return name in CHECKED_WITH_THE_DATA
    if isinstance(value, list):
        return (value == [1] and name in LISTS_OF_NUMBERS) or (value == [] and name in EMPTY_LISTS)
    if isinstance(value, str):
        if "\0" in value:
            return name in TEXTS | {"dataset", "dataset_id"}
        if value == "":
            return name in TEXTS | {"dataset_id"}
        if name in ("mac", "bc", "name"):
            return "/" not in value
        return name in PATHS | NAMES | TEXTS
    if name in ("mac", "bc"):
        return False
    if name in PATHS | NAMES | {"text"}:
        return True
    if isinstance(value, int):
        return (value > 0 and isinstance(default, float)) or name in NUMBERS_OR_NULL | {"min_log_std", "target"}
    return value == 1.5 and (isinstance(default, float) or name in NUMBERS_OR_NULL)


def inputs(name):
    config = composed(*COMMANDS[name])
    config.pop("hydra", None)
    places = [(place, default, value) for place, default in leaves(config) for value in WRONG if value != default]
    return config, places


def judge(name, config, place, default, value):
    """None, or what is wrong with what the command does."""
    option, said = place[-1], f"{'.'.join(map(str, place))}={value!r}"
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        found = outcome(command(COMMANDS[name][0]).main, changed(config, place, value))
    missing = value is None and found.message.startswith("nothing is trained")  # what is needed then is not there
    if found.kind == "refused" and not missing:
        first = found.message.partition("\n")[0]
        words = {option, str(option).rstrip("s"), place[0], "operator" if place[0] == "operator" else option}
        return None if any(str(word) in first for word in words) else f"{said}: the option is not named: {first}"
    if (missing or found.kind == "started") and may_be(option, default, value):
        return None
    return f"{said}: {found.kind} {found.message}"


def attack(name, folder, share):
    config, places = inputs(name)
    chosen = random.Random(SEED).sample(places, round(share * len(places)))
    with stopped(folder):
        defects = [found for each in chosen if (found := judge(name, config, *each))]
    assert not defects, "\n".join(defects)
    return len(chosen)


@pytest.fixture
def deep(tmp_path):
    """A folder whose parents' parents are the test's own, too."""
    folder = tmp_path / "a" / "b" / "c"
    folder.mkdir(parents=True)
    return folder


@pytest.mark.parametrize("name", COMMANDS)
def test_values_of_wrong_types_are_refused_by_name(name, deep):
    assert attack(name, deep, share=0.15) >= 10


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_all_values_of_wrong_types_are_refused_by_name(name, deep):
    attack(name, deep, share=1)


def rows_of(shape, levels):
    draw = np.random.default_rng(0)
    size = (24, int(np.prod(shape)))
    found = draw.integers(0, levels, size).astype(np.uint8) if levels else draw.normal(size=size).astype(np.float32)
    return RowSet("rows", found[:16], found[16:20], found[20:], shape, levels, "nowhere", "0" * 64)


KINDS = ({"a": 1}, {"kind": "nope"}, {"kind": [1]}, {"kind": None})
VALUES = ("xyz", -3, 1.5, [1], {"a": 1})
OF_THE_MODEL = [
    *((section, value) for section in ("network", "path_network", "head", "order") for value in KINDS),
    *(
        (option, value)
        for option in (
            "network.width", "network.depth", "network.dropout", "network.residual", "head.num_components",
            "head.hidden", "head.tilted", "head.energy_clip", "head.normaliser", "order.stride", "baselines.vae",
            "baselines.vae.latent_dim", "regions.left",
        )
        for value in VALUES
    ),
]  # fmt: skip
RIGHT = (
    ("head.energy_clip", 1.5), ("regions.left", [1]), ("network", {"kind": None}), ("head", {"kind": None}),
    ("order", {"kind": None}), *(("path_network", value) for value in KINDS),  # of no arm that is trained here
)  # fmt: skip


def nested(option, value):
    for part in reversed(option.split(".")):
        value = {part: value}
    return value


@pytest.mark.parametrize("share", [0.3, pytest.param(1, marks=pytest.mark.slow)])
def test_settings_of_models_are_refused_before_the_first_training(deep, monkeypatch, share):
    defects = []
    config = composed("benchmark", "benchmark=yacht", "preset=smoke", "seeds=[0]")
    baseline = {"arms": ["vae"], "head": {"kind": "gaussian"}}
    monkeypatch.setattr("mac_policy.rows.likelihoods.presets.load_rows", lambda *_, **__: rows_of((7,), None))
    monkeypatch.setattr("mac_policy.rows.likelihoods.comparison.Comparison.run_arm", started)
    for option, value in random.Random(SEED).sample(OF_THE_MODEL, round(share * len(OF_THE_MODEL))):
        arms = baseline if option.startswith("baselines") else {"arms": ["mac", "sfarm"]}
        with contextlib.redirect_stdout(io.StringIO()):
            found = outcome(command("benchmark").main, {**config, "runs": str(deep), **arms, **nested(option, value)})
        named = any(word in found.message for word in option.replace("regions", "region").split("."))
        wanted = "started" if (option, value) in RIGHT else "refused"
        if found.kind != wanted or (found.message and not named):
            defects.append(f"{option}={value}: {found}")
    assert not defects, "\n".join(defects)


SYNTAX = (
    "+nope=1", "++nope=1", "~seed", "~task", "~run", "~", "+", "=", "==", "=1", "a", "seed", "seed=", "seed=[",
    "seed={", "seed=1,2", "seed='", 'seed="', "seed=a=b", "seed=\\", "seed=${nope}", "seed=${", "seed=${oc.env:NOPE}",
    "seed=???", "seed=null", "seed=1e400", "seed=choice(1,2)", "seed=nope(1)", "seed@x=1", "seed.a=1", "seed[0]=1",
    "@=1", ".=1", "a..b=1", "hydra=1", "hydra.run=1", "hydra.run.dir=null", "hydra.nope=1", "hydra/launcher=nope",
    "+task.nope=1", "task@x=fork", "task=", "task=null", "task=[fork]", "task={a:1}", "task=5", "task=../x", "task=:",
    "task=a:", "task=:b", "task=os:path", "task=nope.nope:x", "operator=5", "operator=[noisy]", "operator=os:path",
    "operator={kind: noisy}", "policy=5", "policy=[mac]", "policy=os:path", "preset=5", "data=x", "data.nope=1",
    "training=null", "training=5", "training.nope=1", "task.observation=xyz", "task.name=x", "author=[1]",
    "seed=\n", "ünï=1", "seed=ü", f"{'a' * 300}=1", f"seed={'9' * 5000}", f"seed={'[' * 200}{']' * 200}", "--nope",
    "--settings=nope", "--cfg", "--cfg=x", "--config-dir=nope", "-x", "--package=x", "--resolve",
)  # fmt: skip

AS_PRESET = {(name, "training=null") for name in ("benchmark of tables", "benchmark of images", "acquire")}
"""These commands take a null as nothing changed."""


@pytest.mark.parametrize(
    ("name", "texts"),
    [
        ("train", SYNTAX[::5]),
        ("evaluate", SYNTAX[1::9]),
        ("mask distribution", SYNTAX[2::9]),
        *(pytest.param(name, SYNTAX, marks=pytest.mark.slow) for name in COMMANDS),
    ],
)
def test_mistakes_of_the_command_line_take_one_line_each(name, texts, deep):
    defects = []
    script, *options = COMMANDS[name]
    for text in texts:
        with stopped(deep):
            found = outcome(run_here, script, *options, text, cwd=deep)
        if found.kind == "started" and (name, text) in AS_PRESET:
            continue
        code, _, err = found.value or (None, "", "")
        if code != 2 or not err.startswith("error: ") or err.count("\n") != 1:
            defects.append(f"{text!r}: {found.kind} {found.message} {code} {err!r}")
    assert not defects, "\n".join(defects)
    assert list(deep.iterdir()) == []


def test_a_process_ends_with_code_2_and_one_line(deep):
    code, out, err = run_script("mask_distribution.py", "n=[1]", cwd=deep)
    assert (code, out) == (2, "")
    assert err == "error: n must be a whole number of at least 1, got [1]\n"
