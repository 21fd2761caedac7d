import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.scripts.helpers import run_here

ROOT = Path(__file__).parents[2]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "scripts/mask_distribution.py", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_writes_the_table_the_plot_and_where_they_come_from(tmp_path):
    done = run("n=12", "samples=20000", f"out={tmp_path}")
    assert done.returncode == 0, done.stderr
    path = Path(done.stdout.strip().splitlines()[-1])
    record = json.loads(path.read_text())
    assert record["columns"]["w-MAC"]["per_million"]["100000000000"] == pytest.approx(76388.9, abs=0.1)
    assert record["columns"]["w-MAC+CR"]["per_million"]["111111111110"] == pytest.approx(22222.2, abs=0.1)
    assert record["columns"]["M"]["entropy"] == pytest.approx(7.212, abs=5e-4)
    assert set(record["columns"]) == set(record["sampled"]) == {"M", "w-RND", "w-MAC", "w-MAC+CR", "w-MAC-edge"}
    for column in (*record["columns"].values(), *record["sampled"].values()):
        assert sum(column["per_million"].values()) == pytest.approx(1e6)
        assert len(column["per_million"]) == 2**12
    assert record["columns"]["w-MAC"]["per_million"]["111111111111"] == 0
    assert all(set(record["rows"]) <= set(column["per_million"]) for column in record["columns"].values())
    settings = {name: column["settings"] for name, column in record["columns"].items()}
    assert settings["M"] == {"masks": "UniformCardinality(12)"}
    assert settings["w-MAC-edge"] == settings["w-MAC"] | {"path_weighting": "sum"}
    assert settings["w-MAC+CR"] == settings["w-MAC"] | {"cardinality_reweighting": True}
    assert {"schema", "command", "created", "seed", "versions", "machine"} <= set(record)
    assert (tmp_path / "mask_distribution.png").stat().st_size > 10_000
    assert "111111111110" in done.stdout


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("n=17", "n must be at most 16"),
        ("n=0", "at least 1, got 0"),
        ("n=two", "got 'two'"),
        ("samples=0", "samples"),
        ("seed=foo", "seed must be a whole number of at least 0, got 'foo'"),
        ("seed=-1", "seed must be a whole number of at least 0, got -1"),
        ("rows=null", "rows must be a list of masks written in 0 and 1, such as rows=[1000,1110], got None"),
        ("rows=foo", "got 'foo'"),
        ("rows=[1000,12]", "got '12'"),
    ],
)
def test_wrong_input_is_one_clean_line(argument, message, tmp_path):
    code, _, err = run_here("mask_distribution", argument, f"out={tmp_path}", cwd=tmp_path)
    assert code == 2
    assert message in err
    assert len(err.splitlines()) == 1


def test_a_folder_that_cannot_be_made_is_known_before_the_work(tmp_path):
    (tmp_path / "file").touch()
    options = ("n=12", "samples=1000000000", f"out={tmp_path / 'file' / 'folder'}")  # the work would take minutes
    code, _, err = run_here("mask_distribution", *options, cwd=tmp_path)
    assert code == 2
    assert "Not a directory" in err
    assert "Traceback" not in err


def test_help_says_what_the_columns_are():
    out = run_here("mask_distribution", "--help", cwd=ROOT)[1]
    assert "w-MAC-edge, w-MAC with path_weighting='sum'" in out
