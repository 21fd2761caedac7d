"""Statistics against slow loops; tables, figures and the film say what the numbers say."""

import math

import imageio.v3 as iio
import numpy as np
import pytest
from scipy.special import stdtrit

from envs.fork.task import ForkTask
from mac_policy.evaluation.episode_store import EpisodeRecord, EpisodeStore
from mac_policy.evaluation.group import Job, run_job
from mac_policy.evaluation.report.figures import reward_figure, task_figure
from mac_policy.evaluation.report.film import OPERATOR, POLICY, draw_commands, render_scene, tile, write_film
from mac_policy.evaluation.report.summary import best_arm, compare, difference, differences, summarise
from mac_policy.evaluation.report.tables import grids, notes, write_pages
from mac_policy.tasks import TaskEnvironment
from tests.evaluation.fork_runs import rollout, save_all, teams

TASKS = ("kettle", "microwave")


def record(arm="a", seed=0, episode=0, reward=1.0, completed=("kettle",), **settings):
    plain = {
        "key": arm, "group": (0, max(4, episode + 1)), "seed": episode, "steps": 2, "held_dims": 1.0, "fallback": 0,
        "invalid": 0, "fill_ms": (1.0, 3.0),
    }  # fmt: skip
    return EpisodeRecord(
        arm=arm, training_seed=seed, episode=episode, reward=reward, completed=completed, **(plain | settings)
    )


def episodes(rewards, arm="a", seed=0):
    return [record(arm, seed, i, reward, ("kettle", "microwave")[: int(reward)]) for i, reward in enumerate(rewards)]


REWARDS = {0: [0.0, 1.0, 2.0, 1.0], 1: [2.0, 2.0, 1.0, 2.0], 2: [0.0, 0.0, 1.0, 0.0]}
SEEDS = {seed: episodes(found, seed=seed) for seed, found in REWARDS.items()}


def student(means):
    """Student's 95% interval of the mean of three values, by hand."""
    half = 4.302653 * math.sqrt(sum((m - sum(means) / 3) ** 2 for m in means) / 2 / 3)
    return [sum(means) / 3 - half, sum(means) / 3 + half]


def crossed(rows):
    """Standard error and Student's 95% interval of the mean of (seeds, episodes) by hand: the variances of the seeds'
    means and of the episodes' means add up."""
    mean = sum(map(sum, rows)) / sum(map(len, rows))
    total = spread = 0.0
    for groups in (rows, list(zip(*rows, strict=True))):
        means = [sum(group) / len(group) for group in groups]
        variance = sum((m - mean) ** 2 for m in means) / (len(means) - 1) / len(means)
        total, spread = total + variance, spread + variance**2 / (len(means) - 1)
    half = float(stdtrit(total**2 / spread, 0.975)) * math.sqrt(total)
    return math.sqrt(total), [mean - half, mean + half]


def test_means_errors_and_intervals_are_those_of_a_slow_loop():
    found = summarise(SEEDS, TASKS)
    means = [sum(rewards) / 4 for rewards in REWARDS.values()]
    mean = sum(means) / 3
    assert found["reward_mean"] == pytest.approx(mean)
    error, ends = crossed(list(REWARDS.values()))
    assert found["reward_se"] == pytest.approx(error)
    assert found["se_over"] == "training seeds and episodes"
    assert found["ci95"] == pytest.approx(ends)
    assert found["interval"] == "Student t over training seeds and episodes"
    assert found["episodes"] == 12
    assert found["rewards"] == list(REWARDS.values())


def test_with_one_training_seed_the_error_is_over_its_episodes():
    found = summarise({0: SEEDS[0]})
    assert found["se_over"] == "episodes"
    assert found["reward_se"] == pytest.approx(np.std(REWARDS[0], ddof=1) / 2)
    assert found["interval"] == "Student t over episodes"
    single = compare({"a": {0: SEEDS[0][:1]}, "b": {0: SEEDS[0][1:2]}}, TASKS)
    assert single["arms"]["a"]["reward_se"] is None
    assert single["arms"]["a"]["ci95"] is None
    assert "| a - b | -1.00 | - | not shown |" in "\n".join(grid.markdown() for grid in grids(single))


def test_each_tasks_share_has_an_interval_over_training_seeds_and_undone_tasks_are_listed():
    shares = summarise(SEEDS, (*TASKS, "hinge cabinet"))["per_task"]
    kettle = [sum(reward >= 1 for reward in rewards) / 4 for rewards in REWARDS.values()]
    low, high = student(kettle)
    assert shares["kettle"]["rate"] == pytest.approx(sum(kettle) / 3)
    assert shares["kettle"]["ci95"] == pytest.approx([max(low, 0), min(high, 1)])
    assert shares["kettle"]["interval"] == "Student t over training seeds"
    assert shares["hinge cabinet"]["rate"] == 0
    assert list(shares) == ["kettle", "microwave", "hinge cabinet"]


def test_with_one_training_seed_a_share_has_wilsons_interval():
    kettle = summarise({0: SEEDS[0]})["per_task"]["kettle"]
    centre, z = 3 / 4, 1.96
    half = z / (1 + z**2 / 4) * math.sqrt(centre * (1 - centre) / 4 + z**2 / (4 * 16))
    middle = (centre + z**2 / 8) / (1 + z**2 / 4)
    assert kettle == {"rate": 0.75, "ci95": pytest.approx([middle - half, middle + half]), "interval": "Wilson"}


def test_latency_is_of_all_steps():
    found = summarise({0: [record(fill_ms=(1.0, 2.0), steps=2), record(fill_ms=(3.0, 10.0), episode=1)]})
    assert found["latency_ms"] == pytest.approx(
        {"p50": 2.5, "p95": np.percentile([1, 2, 3, 10], 95), "p99": np.percentile([1, 2, 3, 10], 99), "batch": 4}
    )


def test_differences_are_paired_by_training_seed_and_episode():
    better = {seed: episodes([r + 1 for r in found], "b", seed) for seed, found in REWARDS.items()}
    gap = difference(better, SEEDS)
    assert gap["mean"] == 1
    assert gap["ci95"] == [1, 1]  # unpaired, the spread of the seeds would show
    shared = difference({0: SEEDS[0], 5: SEEDS[1]}, {0: SEEDS[1], 7: SEEDS[1]})
    assert shared["training_seeds"] == [0]
    assert shared["mean"] == pytest.approx(np.mean(REWARDS[0]) - np.mean(REWARDS[1]))
    assert difference({1: SEEDS[1]}, {2: SEEDS[2]}) is None


def test_an_untrained_arm_stands_beside_every_training_seed():
    gap = difference(SEEDS, {None: SEEDS[2]})
    gaps = [np.array(rewards) - REWARDS[2] for rewards in REWARDS.values()]
    assert gap["mean"] == pytest.approx(np.mean(gaps))
    assert gap["training_seeds"] == [0, 1, 2]
    assert gap["ci95"] == pytest.approx(crossed([found.tolist() for found in gaps])[1])
    assert difference({None: SEEDS[0]}, {None: SEEDS[2]})["mean"] == pytest.approx(np.mean(gaps[0]))


def test_the_reference_is_compared_with_each_and_the_best_alone_is_named():
    results = {"operator+bc": {0: SEEDS[2]}, "operator+mac": {0: SEEDS[1]}, "mac": {0: SEEDS[0]}, "bc": {0: SEEDS[2]}}
    assert list(differences(results, "operator+mac")) == [
        "operator+mac - operator+bc", "operator+mac - mac", "operator+mac - bc"
    ]  # fmt: skip
    assert best_arm(results, ["mac", "bc", "ibc"]) == "mac"
    assert best_arm(results, []) is None
    found = compare(results, TASKS, ["mac", "bc"])
    assert found["best_alone"] == "mac"
    table = "\n".join(grid.markdown() for grid in grids(found))
    assert "| operator+mac - mac (the best policy alone) | +0.75 |" in table
    assert "| operator+mac | 1.75 ± 0.25 |" in table
    assert "| operator+mac | 100% | 75% |" in table
    assert any("One training seed" in note for note in notes(found))
    assert not any("One training seed" in note for note in notes(compare({"a": SEEDS}, TASKS)))


def test_pages_are_a_table_and_pictures_with_something_on_them(tmp_path):
    found = compare({"operator+mac": SEEDS, "mac": SEEDS, "zeros": {None: SEEDS[2]}}, TASKS, ["mac"])
    pages = write_pages(tmp_path, "a title", ["a fact"], found, 2.0)
    assert [page.name for page in pages] == ["table.md", "reward.png", "tasks.png"]
    assert pages[0].read_text().startswith("# a title\n\n- a fact\n")
    for page in pages[1:]:
        picture = iio.imread(page)[..., :3]
        assert min(picture.shape[:2]) > 200
        assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 10


def test_bars_are_as_long_as_the_rewards_and_errors_as_the_intervals():
    arms = {name: summarise(SEEDS, TASKS) for name in ("operator+mac", "mac")}
    axes = reward_figure(arms, "title", 4.0).axes[0]
    assert [bar.get_width() for bar in axes.patches] == [arms["mac"]["reward_mean"]] * 2
    assert list(axes.lines[0].get_xdata()) == arms["mac"]["ci95"]
    assert axes.get_xlim()[1] >= 4
    bars = task_figure(arms, "title").axes[0].patches
    assert [bar.get_height() for bar in bars] == [arms["mac"]["per_task"][task]["rate"] for task in TASKS] * 2


def test_commands_are_drawn_with_the_operators_dims_marked():
    image = draw_commands(np.array([1.0, 0.0, 0.5]), [True, False, False], 90)
    assert (image[2, 15] == OPERATOR).all()  # up, the operator's
    assert (image[40, 45] == POLICY).all()  # down, filled in
    assert (image[2, 45] == 255).all()
    assert (image[40, 75] == 255).all()  # zero: no bar


def test_panels_of_different_lengths_stand_still_at_their_end():
    short, long = np.full((2, 8, 8, 3), 10, np.uint8), np.full((5, 8, 8, 3), 20, np.uint8)
    short[1] = 30
    film = tile([short, long])
    assert film.shape[0] == 5
    assert film.shape[1] % 16 == film.shape[2] % 16 == 0
    assert set(np.unique(film[4])) == {20, 30, 255}


class Faster(ForkTask):
    film_every = 4


def test_the_film_shows_one_episode_of_each_arm(tmp_path):
    runs = save_all(tmp_path)
    what = rollout(1, 1)
    scenes = {team.arm: run_job(what, Job(team, "0", 0, 1))[0] for team in teams(runs, "operator+mac", "mac", "zeros")}
    drawn = TaskEnvironment(ForkTask(), size=240)
    title, panel = render_scene(drawn, ("operator+mac", scenes["operator+mac"]))
    assert (title, len(panel)) == ("operator+mac", scenes["operator+mac"].steps)
    _, fewer = render_scene(TaskEnvironment(Faster(), size=240), ("operator+mac", scenes["operator+mac"]))
    assert len(fewer) == math.ceil((scenes["operator+mac"].steps - 1) / 4) + 1
    path, still, gif = write_film(tmp_path / "video.mp4", scenes, drawn)
    film, moving = iio.imread(path), iio.imread(gif)
    assert iio.imread(still).shape == film.shape[1:] == moving.shape[1:]
    assert 1 < len(moving) < len(film)
    assert abs(moving[-1].astype(int) - film[-1]).mean() < 12  # what is done at the end stands still at the end
    assert film.shape[0] >= max(record.steps for record in scenes.values())
    for picture in (film[0], moving[0]):
        colours = picture.reshape(-1, 3).astype(int)
        for colour in (OPERATOR, POLICY):
            assert (abs(colours - colour).sum(1) < 60).sum() > 50  # the legend at least


def test_stored_records_come_back_whole(tmp_path):
    store = EpisodeStore(tmp_path)
    kept = [record(actions=((0.1, -1.0),), masks=("10",)), record(seed=None, episode=1, reward=0.1 + 0.2)]
    store.append(kept[:1])
    store.append(kept[1:])
    assert store.read() == kept
