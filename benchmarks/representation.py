"""Absolute or relative actions on data that nobody tuned for: a servo arm whose data look as LeRobot stores them.

    python benchmarks/representation.py --seeds 0 1 2 3 4

Three joints follow their targets with a lag, and readings are noisy. An episode names two points in joint space, near
two places, which the arm is to touch one after the other; a jerky demonstrator drives it. The data hold absolute
targets. The same episodes are also given as relative actions, (target - reading) / 0.3, to policies that say motions or
places. Points touched of 2.
"""

import argparse
import tempfile

import numpy as np
import torch
from gymnasium import spaces

from mac_policy import Actions, Demonstrations, Episode, Policy, Spaces, TrainSettings, make_policy, train
from mac_policy.common.statistics import mean_over_seeds

JOINTS, STEPS, REACH, LAG, NOISE, NEAR = 3, 60, 0.3, 0.4, 0.01, 0.12
WIDE = spaces.Box(-np.inf, np.inf, (3 * JOINTS + 1,), np.float32)
PLACES = np.array([[0.8, -0.6, 0.5], [-0.7, 0.7, 0.9]])
KINDS = {
    "absolute data": (spaces.Box(-3.0, 3.0, (JOINTS,), np.float32), Actions(meaning="absolute"), "auto"),
    "relative data, absolute policy": (
        spaces.Box(-1.0, 1.0, (JOINTS,), np.float32),
        Actions(meaning="relative", observed=tuple(range(JOINTS)), scale=(REACH,)),
        "absolute",
    ),
    "relative data, relative policy": (spaces.Box(-1.0, 1.0, (JOINTS,), np.float32), Actions(), "relative"),
}


class Servo:
    """The arm; observation: readings, both points, and how many of them were touched."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.position, self.touched = self.random.normal(0, 0.1, JOINTS), 0
        self.points = PLACES + self.random.uniform(-0.2, 0.2, (2, JOINTS))

    def observe(self) -> np.ndarray:
        self.reading = self.position + self.random.uniform(-NOISE, NOISE, JOINTS)
        return np.float32([*self.reading, *self.points.ravel(), self.touched])

    def send(self, target: np.ndarray) -> None:
        """One step towards a target, which is at most REACH from the reading."""
        limited = self.reading + np.clip(target - self.reading, -REACH, REACH)
        self.position = self.position + LAG * (limited - self.position)
        if self.touched < 2 and np.abs(self.position - self.points[self.touched]).max() < NEAR:
            self.touched += 1


def demonstration(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Observations (T + 1, obs) and absolute targets (T, joints)."""
    arm, jerk = Servo(seed), np.zeros(JOINTS)
    seen, targets = [arm.observe()], []
    for _ in range(STEPS):
        jerk = 0.7 * jerk + arm.random.normal(0, 0.06, JOINTS)
        goal = arm.points[min(arm.touched, 1)]
        target = arm.reading + np.clip(goal - arm.reading, -0.2, 0.2) + jerk
        targets.append(arm.reading + np.clip(target - arm.reading, -REACH, REACH))
        arm.send(targets[-1])
        seen.append(arm.observe())
    return np.array(seen, np.float32), np.array(targets, np.float32)


def dataset(episodes: int, is_absolute: bool) -> Demonstrations:
    zeros, no, made = np.zeros(STEPS, np.float32), np.zeros(STEPS, bool), []
    for seed in range(episodes):
        seen, targets = demonstration(10_000 + seed)
        actions = targets if is_absolute else (targets - seen[:-1, :JOINTS]) / REACH
        made.append(Episode(seen, np.clip(actions, -3, 3) if is_absolute else np.clip(actions, -1, 1), zeros, no, no))
    return Demonstrations.of(made, name="servo", kind="scripted")


def touched(policy: Policy, is_absolute: bool, episodes: int) -> np.ndarray:
    """(episodes,) points touched, all episodes side by side."""
    arms = [Servo(seed) for seed in range(episodes)]
    state, random = policy.initial_state(episodes), torch.Generator().manual_seed(0)
    for _ in range(STEPS):
        seen = np.stack([arm.observe() for arm in arms])
        actions, state = policy.step(seen, state, generator=random)
        for arm, action in zip(arms, actions, strict=True):
            arm.send(action if is_absolute else arm.reading + REACH * action)
    return np.array([arm.touched for arm in arms])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4], help="of training")
    parser.add_argument("--demonstrations", type=int, default=50)
    parser.add_argument("--episodes", type=int, default=100)
    parser.add_argument("--steps", type=int, default=1500, help="of training")
    parser.add_argument("--chunks", type=int, nargs="+", default=[1, 4], help="steps that are planned and carried out")
    options = parser.parse_args()
    torch.set_num_threads(1)
    small = {"bc": {"width": 128}, "mac": {"width": 128, "query_width": 128, "query_depth": 2, "masks_per_row": 2}}
    print("| policy | chunk | data and policy | points of 2 | 95% interval |\n| --- | --- | --- | --- | --- |")
    for kind, sizes in small.items():
        for chunk in options.chunks:
            for name, (space, actions, representation) in KINDS.items():
                demos, values = dataset(options.demonstrations, name == "absolute data"), []
                for seed in options.seeds:
                    settings = sizes | {"horizon": chunk, "execute": chunk, "representation": representation}
                    policy = make_policy(kind, Spaces.of(WIDE, space, actions), settings, seed)
                    with tempfile.TemporaryDirectory() as folder:
                        training = TrainSettings(steps=options.steps, batch_size=256)
                        policy = train(policy, demos, training, folder, seed=seed, quiet=True).policy
                    values.append(touched(policy, name == "absolute data", options.episodes))
                mean = mean_over_seeds(values)
                ends = "" if mean.ci95 is None else f"{mean.ci95[0]:.2f} to {mean.ci95[1]:.2f}"
                print(f"| {kind} | {chunk} | {name} | {mean.mean:.2f} | {ends} |", flush=True)


if __name__ == "__main__":
    main()
