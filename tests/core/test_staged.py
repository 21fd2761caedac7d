"""SFARM's staged activation: every mode has its region, is trained alike, and trains the stage it is in."""

import pytest
import torch

from mac_policy.core import StagedModes
from mac_policy.core.masks import mask_codes
from tests.core.test_masks import chi_square_p

FIRST = {"random": [], "start": [0, 1], "end": [3, 4], "most": [0, 1, 2, 4]}  # no region is another's complement


def trained_masks(n=4000):
    return StagedModes((5,), FIRST).training_masks(n, torch.Generator().manual_seed(0))


def stage_of(mode, evidence):
    """The variables of the stage that a walk in this mode is in, {i}, written without tensors; None off the walk."""
    seen = {i for i in range(5) if evidence[i]}
    first = set(FIRST[list(FIRST)[mode]])
    if first - seen:
        return first - seen if seen <= first else None
    return set(range(5)) - seen


def test_weights_are_uniform_over_the_stage_that_the_mode_is_in():
    masks = trained_masks()
    for evidence, weights, mode in zip(
        masks.evidence.tolist(), masks.weights.tolist(), masks.mode.tolist(), strict=True
    ):
        stage = stage_of(mode, evidence)
        assert stage is not None
        assert weights == pytest.approx([1 / len(stage) if i in stage else 0.0 for i in range(5)])


def test_every_mode_and_every_step_is_trained_alike():
    masks = trained_masks()
    assert chi_square_p(torch.bincount(masks.mode, minlength=4), torch.full((4,), 1 / 4)) > 1e-4
    for mode in range(4):
        steps = masks.evidence[masks.mode == mode].sum(1)
        assert chi_square_p(torch.bincount(steps, minlength=5), torch.full((5,), 1 / 5)) > 1e-4


def test_inference_is_told_the_mode_it_walks_in():
    modes = StagedModes((5,), FIRST)
    assert modes.path_mode(2).tolist() == [0, 0]
    everything = torch.ones(50, 5, dtype=torch.bool)
    for number, name in enumerate(FIRST):
        chosen = modes.at(name)
        assert chosen.path_mode(3).tolist() == [number] * 3
        ranks = chosen.ranks(query=everything, given=~everything, generator=torch.Generator().manual_seed(0))
        for rank in ranks:
            for step in range(5):
                assert rank.tolist().index(step) in stage_of(number, rank < step)


def test_image_modes_fill_the_second_region_last():
    modes = StagedModes((4, 4))
    everything = torch.ones(200, 16, dtype=torch.bool)
    for name, inner_last in {"interior": True, "exterior": False}.items():
        ranks = modes.at(name).ranks(query=everything, given=~everything, generator=torch.Generator().manual_seed(0))
        inner = ranks.view(-1, 4, 4)[:, 1:3, 1:3].flatten(1)
        assert (inner.amin(1) == 12).all() if inner_last else (inner.amax(1) == 3).all()
    left = (
        modes.at("left-right")
        .ranks(query=everything, given=~everything, generator=torch.Generator().manual_seed(0))
        .view(-1, 4, 4)
    )
    assert (left[:, :, :2].flatten(1).amax(1) == 7).all()
    bottom = (
        modes.at("bottom-top")
        .ranks(query=everything, given=~everything, generator=torch.Generator().manual_seed(0))
        .view(-1, 4, 4)
    )
    assert (bottom[:, 2:].flatten(1).amax(1) == 7).all()


def test_staged_training_masks_are_what_ranks_walk():
    """Evidence at a uniform step of the walk: the same law from training_masks and from cutting ranks."""
    modes = StagedModes((4,), {"b last": [0, 1, 2]})
    g = torch.Generator().manual_seed(0)
    trained = modes.training_masks(30_000, g)
    everything = torch.ones(30_000, 4, dtype=torch.bool)
    ranks = modes.ranks(query=everything, given=~everything, generator=g)
    walked = ranks < torch.randint(0, 4, (30_000, 1), generator=g)
    law = torch.bincount(mask_codes(walked), minlength=16) / 30_000
    counts = torch.bincount(mask_codes(trained.evidence), minlength=16)
    assert (counts[law == 0] == 0).all()
    torch.testing.assert_close(counts / 30_000, law, atol=0.012, rtol=0)
    last = trained.evidence[:, :3].all(1)
    assert (trained.weights[last] == torch.tensor([0.0, 0, 0, 1])).all()


def test_channels_of_an_element_are_activated_together():
    modes = StagedModes((2, 3), channels=3)
    evidence = modes.training_masks(100, torch.Generator().manual_seed(0)).evidence.view(100, 3, 6)
    assert torch.equal(evidence[:, 0], evidence[:, 1])
    query = torch.ones(100, 18, dtype=torch.bool)
    ranks = modes.ranks(query=query, given=~query).view(100, 3, 6)
    assert torch.equal(ranks[:, 0], ranks[:, 2])
    assert torch.equal(ranks[:, 0].sort(1).values, torch.arange(6).expand(100, 6))


@pytest.mark.parametrize("shape", [(2, 2), (3, 3), (2, 3)])
def test_on_a_tiny_image_the_inner_modes_walk_as_random(shape):
    modes = StagedModes(shape)
    everything = torch.ones(300, modes.num_variables, dtype=torch.bool)
    for name in ("interior", "exterior"):
        ranks = modes.at(name).ranks(query=everything, given=~everything, generator=torch.Generator().manual_seed(0))
        assert all(len(ranks[:, i].unique()) == modes.num_variables for i in range(modes.num_variables))


def test_a_region_may_have_the_shape_of_the_image_or_be_flat():
    region = torch.zeros(3, 4, dtype=torch.bool)
    region[1, 2] = True
    everything = torch.ones(1, 12, dtype=torch.bool)
    for form in (region, region.flatten(), region.flatten().tolist(), [6], torch.tensor([6]), [6.0]):
        assert StagedModes((3, 4), {"a": form}).ranks(query=everything, given=~everything)[0, 6] == 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: StagedModes((4, 4), ["left-rigth"]), "did you mean 'left-right'"),
        (lambda: StagedModes((4, 4), ["random", "random"]), "different names"),
        (lambda: StagedModes((4, 4)).at("diagonal"), "unknown mode 'diagonal'"),
        (lambda: StagedModes((4,), {}), "at least one region"),
        (lambda: StagedModes((4,), {"a": [4]}), r"elements 0..3, got \[4\]"),
        (lambda: StagedModes((4,), {"a": torch.ones(3, dtype=torch.bool)}), r"4 entries, got shape \(3,\)"),
        (lambda: StagedModes((0, 4)), "shape"),
        (lambda: StagedModes((4, 4), channels=0), "channels"),
        (lambda: StagedModes((3, 8, 8)), r"\(H, W\) of an image or \(N,\) of a table, got \(3, 8, 8\)"),
        (lambda: StagedModes(()), r"got \(\)"),
        (lambda: StagedModes("ab"), "whole number of at least 1, got 'a'"),
        (lambda: StagedModes((3, 4), {"a": torch.ones(4, 3).bool()}), r"shape \(3, 4\) or .*, got shape \(4, 3\)"),
        (lambda: StagedModes((4,), {"a": [1.7]}), r"elements 0..3, got \[1.7"),
        (lambda: StagedModes((4,), {"a": [[0, 1]]}), r"elements 0..3, got \[\[0, 1\]\]"),
        (lambda: StagedModes((4,), {"a": torch.tensor([torch.nan])}), r"got \[nan\]"),
        (lambda: StagedModes((4,), {"a": "left"}), "region 'a' must be .*, got 'left'"),
        (lambda: StagedModes((4,)).training_masks(-1), "n must be .* at least 0, got -1"),
    ],
)  # fmt: skip
def test_bad_input_is_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()
