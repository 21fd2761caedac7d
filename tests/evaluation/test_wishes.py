"""Measures of episodes with an intent against slow loops, and the tables and figures that show them."""

import itertools

import imageio.v3 as iio
import numpy as np
import pytest
from scipy.special import stdtrit

from mac_policy.evaluation.episode_store import EpisodeStore
from mac_policy.evaluation.measurement import first_dims
from mac_policy.evaluation.report.figures import dims_figure
from mac_policy.evaluation.report.summary import compare, summarise
from mac_policy.evaluation.report.tables import grids, notes, overview_grids, write_pages
from mac_policy.evaluation.wishes import belief_followed_after, belief_right, in_order
from mac_policy.operators.dims import OperatorDims
from tests.evaluation.test_report import record

INTENT = ("a", "b", "c", "d")
NAMES = (*INTENT, "x", "y")


def test_in_order_counts_the_longest_wanted_subsequence():
    for completed in itertools.permutations(NAMES, 4):
        best = 0
        for size in range(5):
            for chosen in itertools.combinations(completed, size):
                if all(name in INTENT for name in chosen) and list(chosen) == sorted(chosen, key=NAMES.index):
                    best = max(best, size)
        assert in_order(INTENT, completed) == best


def drawn(seed, episode, rng, **more):
    completed = tuple(map(str, rng.permutation(NAMES)[: rng.integers(1, 6)]))
    return record(
        "operator+mac", seed, episode, float(len({*completed} & {*INTENT})), completed, intent=INTENT,
        steps=int(rng.integers(100, 281)), held_dims=float(rng.integers(0, 5)), fallback=int(rng.integers(3)), **more,
    )  # fmt: skip


@pytest.fixture
def seeds():
    rng = np.random.default_rng(0)
    return {seed: [drawn(seed, episode, rng) for episode in range(6)] for seed in range(5)}


def test_measures_are_means_over_training_seeds(seeds):
    found = summarise(seeds)
    assert found["wanted_mean"] == found["reward_mean"]
    assert found["wanted_ci95"] == found["ci95"]
    slow = {
        "unwanted": lambda r: len([name for name in r.completed if name not in INTENT]),
        "steps": lambda r: r.steps,
        "effort": lambda r: r.steps * r.held_dims,
        "fallbacks": lambda r: r.fallback,
    }
    for name, measure in slow.items():
        means = [sum(map(measure, episodes)) / 6 for episodes in seeds.values()]
        mean = sum(means) / 5
        of_episodes = [sum(measure(episodes[i]) for episodes in seeds.values()) / 5 for i in range(6)]
        parts = [(sum((m - mean) ** 2 for m in each) / (len(each) - 1) / len(each)) for each in (means, of_episodes)]
        error, freedom = sum(parts) ** 0.5, sum(parts) ** 2 / (parts[0] ** 2 / 4 + parts[1] ** 2 / 5)
        half = float(stdtrit(freedom, 0.975)) * error
        assert found[f"{name}_mean"] == pytest.approx(mean)
        assert found[f"{name}_se"] == pytest.approx(error)
        assert found[f"{name}_ci95"] == pytest.approx([mean - half, mean + half])
    assert "followed" not in found
    assert "belief_right_mean" not in found


def test_episodes_without_an_intent_have_no_such_measures():
    assert not any("wanted" in name for name in summarise({0: [record()]}))


def test_the_belief_is_compared_with_the_wish_step_by_step():
    one = record(intent=INTENT, wished=(0, 0, 2, -1, 2), assumed=(0, 1, 1, 3, 2), changed_at=2)
    assert belief_right(one) == 2 / 4
    assert belief_followed_after(one) == 2  # at the fifth step, two after the change
    assert belief_followed_after(record(intent=INTENT, wished=(0, 1), assumed=(0, 0), changed_at=1)) is None
    assert belief_right(record(intent=INTENT, wished=(0, 1))) is None
    assert belief_right(record(intent=INTENT, wished=(0, 1), assumed=(-1, -1))) is None
    assert belief_right(record(intent=INTENT, wished=(0, 1, 1), assumed=(0, -1, 1))) == 2 / 3  # nothing is not right


def test_what_never_followed_counts_as_longest(seeds):
    rng = np.random.default_rng(1)
    follow = [5, None, 9, None, 7, 300]
    episodes = [drawn(0, i, rng, changed_at=3, followed_after=after) for i, after in enumerate(follow)]
    found = summarise({0: episodes})
    assert found["followed"] == 4 / 6
    assert found["followed_after_median"] == (9 + 300) / 2
    none = summarise({0: [drawn(0, i, rng, changed_at=3) for i in range(3)]})
    assert (none["followed"], none["followed_after_median"]) == (0.0, None)


def test_tables_and_figures_show_them(seeds, tmp_path):
    others = {seed: list(episodes) for seed, episodes in seeds.items()}
    results = {"operator+mac": seeds, "mac-told": others}
    found = compare(results, NAMES)
    titles = [grid.title for grid in grids(found)]
    assert titles == ["Reward", "What was wanted", *titles[2:]]
    wishes = grids(found)[1]
    assert wishes.header == ("arm", "unwanted", "in order", "steps", "effort", "fallbacks")
    arm = found["arms"]["operator+mac"]
    assert wishes.rows[0][1] == f"{arm['unwanted_mean']:.2f} ± {arm['unwanted_se']:.2f}"
    assert "wanted tasks completed per episode" in notes(found)[0]
    pages = write_pages(tmp_path, "title", ["fact"], found, 4.0)
    assert [page.name for page in pages] == ["table.md", "wanted.png", "reward.png", "tasks.png"]
    assert all(iio.imread(page).std() > 1 for page in pages[1:])
    assert "![wanted](wanted.png)" in pages[0].read_text()
    assert [grid.title for grid in overview_grids({"0123": found, "01": found}, "dims")][1] == "Unwanted tasks by dims"
    for counts in (None, [2, 4]):
        picture = dims_figure({"01": found["arms"], "0123": found["arms"]}, "title", 4.0, counts)
        picture.savefig(tmp_path / "dims.png")
        assert iio.imread(tmp_path / "dims.png").std() > 1
        (axes,) = picture.axes
        assert len(axes.patches) == (0 if counts else 4)
        if counts:
            assert axes.lines[0].get_xdata().tolist() == [2, 4]


def test_the_first_dims_make_a_curve_and_other_subsets_do_not():
    def counted(*specs):
        return first_dims([OperatorDims.parse(spec, 9) for spec in specs])

    assert counted("none", 1, 4, 9) == [0, 1, 4, 9]
    assert counted(4, 1) is None
    assert counted(1, [0, 2]) is None
    assert counted(1, "random-4") is None


def test_records_are_stored_and_those_of_earlier_versions_are_read(tmp_path):
    store = EpisodeStore(tmp_path)
    rng = np.random.default_rng(0)
    kept = drawn(0, 0, rng, changed_at=4, wished=(1, -1), assumed=(0, 0))
    store.append([kept])
    assert store.read() == [kept]
    line = store.path.read_text().partition(', "crc32"')[0] + "}\n"  # earlier versions wrote no checksum
    store.path.write_text(
        line.replace(', "wished": [1, -1], "assumed": [0, 0]', "") + line.replace('"steps"', '"stps"')
    )
    (older,) = store.read()
    assert (older.wished, older.changed_at) == ((), 4)
