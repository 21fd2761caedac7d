"""Time and memory to load data sets of the size of D4RL's kitchen-mixed.

    python benchmarks/data_loading.py

The benchmark writes a Minari data set and a D4RL file of 137,000 steps each into a temporary folder and loads each in
a separate process. The limits are 3 s and 500 MB.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from mac_policy.common.provenance import run_record, write_json

EPISODES, LENGTH = 685, 200
LOADERS = {
    "minari": "from mac_policy.demonstrations import read_minari; load = lambda: read_minari('made/big-v0')",
    "d4rl": "from mac_policy.demonstrations import read_d4rl; load = lambda: read_d4rl('big.hdf5')",
}
MEASURE = """
import json, time
from pathlib import Path
{loader}
start, cpu = time.perf_counter(), time.process_time()
demos = load()
demos.observations, demos.actions, demos.windows(2, 4), demos.statistics()
seconds = time.perf_counter() - start
cpu = time.process_time() - cpu
# The peak of this program alone: getrusage's survives exec and includes the caller's memory.
status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":" in line)
peak = int(status["VmHWM"].split()[0]) / 1024
found = dict(steps=demos.steps, episodes=len(demos), seconds=seconds, cpu_seconds=cpu, peak_mb=peak)
print(json.dumps(found))
"""


def make_minari() -> None:
    """Write 137,000 steps of 59 and 9 values, with executed actions, into the Minari store of this process."""
    from mac_policy.demonstrations import Demonstrations, Episode, write_minari

    rng = np.random.default_rng(0)
    flags = np.arange(LENGTH) == LENGTH - 1
    episodes = [
        Episode(
            observations=rng.normal(size=(LENGTH + 1, 59)).astype(np.float32),
            actions=rng.uniform(-1, 1, (LENGTH, 9)).astype(np.float32),
            rewards=np.zeros(LENGTH, np.float32),
            terminations=flags,
            truncations=~flags & False,
            completed=("kettle",),
            executed=rng.uniform(-1, 1, (LENGTH, 9)).astype(np.float32),
            seed=index,
        )
        for index in range(EPISODES)
    ]
    write_minari(Demonstrations.of(episodes, name="made", kind="scripted"), "made/big-v0")


def make_d4rl(path: Path) -> None:
    """Write 137,000 steps of 60 and 9 values."""
    rng = np.random.default_rng(0)
    steps = EPISODES * LENGTH
    with h5py.File(path, "w") as file:
        file["observations"] = rng.normal(size=(steps, 60)).astype(np.float32)
        file["actions"] = rng.uniform(-1, 1, (steps, 9)).astype(np.float32)
        file["rewards"] = np.zeros(steps, np.float32)
        file["terminals"] = np.arange(steps) % LENGTH == LENGTH - 1
        file["timeouts"] = np.zeros(steps, bool)


def measure() -> dict[str, dict[str, Any]]:
    """Steps, episodes, seconds to load and peak memory of the process in MB, for each format."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "MINARI_DATASETS_PATH": folder, "OMP_NUM_THREADS": "1"}
        environment["PYTHONPATH"] = str(Path(__file__).parents[1])
        make = "from benchmarks.data_loading import make_minari; make_minari()"
        subprocess.run([sys.executable, "-c", make], env=environment, check=True)
        make_d4rl(Path(folder) / "big.hdf5")
        return {name: _measure_one(loader, folder, environment) for name, loader in LOADERS.items()}


def _measure_one(loader: str, folder: str, environment: dict[str, str]) -> dict[str, Any]:
    code = textwrap.dedent(MEASURE).format(loader=loader)
    run = subprocess.run(
        [sys.executable, "-c", code], env=environment, cwd=folder, capture_output=True, text=True, check=True
    )
    return json.loads(run.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/benchmarks/data_loading"), help="folder of results.json")
    options = parser.parse_args()
    rows = measure()
    print(f"{'format':8} {'steps':>8} {'episodes':>8} {'seconds':>8} {'cpu s':>6} {'peak MB':>8}")
    for name, row in rows.items():
        print(
            f"{name:8} {row['steps']:8,} {row['episodes']:8} {row['seconds']:8.2f} {row['cpu_seconds']:6.2f}"
            f" {row['peak_mb']:8.0f}"
        )
    print(write_json(options.out / "results.json", run_record(0) | {"formats": rows}))


if __name__ == "__main__":
    main()
