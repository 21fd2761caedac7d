"""The quality of sampled images against the number of network passes (SFARM, Fig. 7 and 8)."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from mac_policy.common import files as atomic
from mac_policy.common.checks import check_choice, check_count
from mac_policy.common.digest import file_sha256
from mac_policy.common.folders import WEIGHTS
from mac_policy.common.settings import Count, Natural, Positive, Settings
from mac_policy.rows.checkpoint import Kept, read_kept, write_kept
from mac_policy.rows.generation.features import FeatureNetwork, feature_distance, train_feature_network
from mac_policy.rows.likelihoods.evaluate import row_tensor
from mac_policy.rows.model import AnyOrderRows, RowModel
from mac_policy.rows.sets.registry import LABELLED, NUM_CLASSES, load_rows
from mac_policy.rows.sets.row_set import RowSet
from mac_policy.training.streams import stream

ROWS_AT_ONCE = 50  # images sampled together, with a random stream for each batch
LEAST_ACCURACY = 2 / NUM_CLASSES  # twice that of guessing
CLASSES_OF = {"binarized_mnist": "mnist"}  # the labelled set that provides the classes of an unlabelled set


@dataclass(frozen=True)
class FewSteps(Settings):
    """The settings of the experiment.

    steps: numbers of network passes; samples: images for each number of passes; shown: images in the picture;
    feature_steps: training steps of the classifier.
    """

    steps: tuple[Count, ...]
    samples: Annotated[int, partial(check_count, least=2)]
    feature_steps: Count
    shown: Count = 10
    temperature: Positive = 1.0
    seed: Natural = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.steps:
            raise ValueError("steps=[] names no number of network passes: write some, such as steps=[2,8,32]")


def possible_steps(model: RowModel, steps: Iterable[int]) -> list[int]:
    """The distinct numbers of steps in ascending order, limited to the maximum of the model."""
    most = getattr(model, "most_steps", None)
    if isinstance(model, AnyOrderRows):
        query = torch.ones(1, model.num_variables, dtype=torch.bool)
        most = 1 + int(model.factorization.ranks(query=query, given=~query, generator=stream(0, "steps")).max())
    if most is None:
        raise ValueError(
            f"a {type(model).__name__} draws an image in one step and takes no number of steps: choose another arm"
        )
    return sorted({min(number, most) for number in steps})


def draw(model: RowModel, count: int, steps: int, *, temperature: float, seed: int) -> Tensor:
    """Draw unconditional samples in at most `steps` passes each, (count, N)."""
    parts = []
    for start in range(0, count, ROWS_AT_ONCE):
        nothing = torch.zeros(min(ROWS_AT_ONCE, count - start), model.num_variables, dtype=torch.uint8)
        parts.append(
            model.sample(
                nothing,
                given=torch.zeros_like(nothing, dtype=torch.bool),
                steps=steps,
                temperature=temperature,
                generator=stream(seed, f"samples in {steps} steps", start),
            )
        )
    return torch.cat(parts)


def drawn_once(
    model: RowModel, arm: Path, folder: Path, count: int, steps: int, *, temperature: float, seed: int
) -> tuple[Tensor, float]:
    """`draw` and its duration in seconds. Samples are cached in the folder by weights and settings."""
    path = folder / f"samples-{steps}.safetensors"
    facts = {"weights": file_sha256(arm / WEIGHTS), "count": count, "temperature": temperature, "seed": seed}
    kept = read_kept(path, facts)
    if kept is None:
        begun = time.perf_counter()
        samples = draw(model, count, steps, temperature=temperature, seed=seed)
        kept = Kept({"samples": samples}, time.perf_counter() - begun)
        write_kept(path, kept, facts)
    return kept.tensors["samples"], kept.seconds


def features_for(rows: RowSet, root: str | Path | None, steps: int) -> tuple[FeatureNetwork, float]:
    """Train a classifier on these images or on their labelled originals. Returns the classifier and its accuracy."""
    name = set_with_classes(rows)
    labelled = rows if name == rows.name else load_rows(name, root)
    return train_feature_network(labelled, levels=rows.levels, steps=steps)


def is_informative(accuracy: float) -> bool:
    """Whether a classifier is right often enough for distances between its features to say something about images.

    >>> from mac_policy.rows.generation.few_steps import is_informative
    >>> is_informative(0.1), is_informative(0.5)
    (False, True)
    """
    return accuracy >= LEAST_ACCURACY


def set_with_classes(rows: RowSet) -> str:
    """The name of the labelled data set of these images."""
    return check_choice("data set with classes", CLASSES_OF.get(rows.name, rows.name), LABELLED)


def distances(network: FeatureNetwork, samples: Mapping[int, Tensor], rows: RowSet) -> dict[str, Any]:
    """The distances of samples, and of other test images as a reference, to an equal number of test images."""
    real, others = two_sets(rows, len(next(iter(samples.values()))))
    return {
        "steps": {str(steps): feature_distance(network, drawn, real) for steps, drawn in samples.items()},
        "between_test_images": feature_distance(network, others, real),
    }


def two_sets(rows: RowSet, count: int) -> tuple[Tensor, Tensor]:
    """Two disjoint sets of test images, drawn at random with a fixed seed.

    The draw covers the whole file, because the beginning and the end of a file may be by different writers.
    """
    drawn = torch.randperm(len(rows.test), generator=stream(0, "test images"))[: check_samples(count, rows) * 2].numpy()
    return row_tensor(rows.test, np.sort(drawn[:count])), row_tensor(rows.test, np.sort(drawn[count:]))


def check_samples(count: int, rows: RowSet) -> int:
    """Return `count`. ValueError if there are fewer than 2 * count test images."""
    if 2 * count > len(rows.test):
        most = len(rows.test) // 2
        raise ValueError(
            f"samples={count} need {2 * count} test images, there are {len(rows.test)}: choose at most {most} samples"
        )
    return count


def write_distances(path: Path, found: Mapping[str, Any], about: str) -> Path:
    """Write a PNG of the distance against the number of steps."""
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    steps: Sequence[int] = [int(step) for step in found["steps"]]
    axes.plot(steps, list(found["steps"].values()), marker="o", label="samples")
    axes.axhline(found["between_test_images"], color="grey", ls="--", label="other test images")
    axes.set(xscale="log", xlabel="steps", ylabel="distance to test images", title=about)
    axes.title.set_fontsize(8)
    axes.legend()
    return atomic.write_figure(path, figure)
