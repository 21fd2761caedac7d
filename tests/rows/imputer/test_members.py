"""The parts of the Imputer: the joint Gaussian, the dimensions, the members and their calibration."""

import itertools

import numpy as np
import pytest
import torch

from mac_policy import TableModel
from mac_policy.rows.columns import Columns
from mac_policy.rows.columns.caps import caps
from mac_policy.rows.imputer import calibration, training
from mac_policy.rows.imputer.calibration import calibrate
from mac_policy.rows.imputer.encoding import Encoding
from mac_policy.rows.imputer.law import MostlyKnown
from mac_policy.rows.imputer.linear import JointGaussian, fit_gaussian
from mac_policy.rows.imputer.members import Ensemble, MemberNetwork, Members

SETTINGS = training.ImputerSettings(
    factorization="uniform", members=2, steps=60, patience=30, batch_size=32, learning_rate=5e-3, width=8, depth=1,
    num_components=2, dropout=0.0, noise=0.0, validation=0.2, device="cpu",
)  # fmt: skip


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def gaussian_rows(rows, dims, seed=0):
    """Rows of a Gaussian of unit variances, and its covariance."""
    mixing = torch.randn(dims, dims, generator=generator(seed), dtype=torch.double)
    covariance = mixing @ mixing.T + 0.1 * torch.eye(dims, dtype=torch.double)
    std = covariance.diagonal().sqrt()
    covariance = covariance / torch.outer(std, std)
    x = torch.randn(rows, dims, generator=generator(seed + 1), dtype=torch.double)
    return x @ torch.linalg.cholesky(covariance).T, covariance


def conditional(covariance, x, seen):
    """Mean and standard deviation of every dimension of one row given x at `seen`, with mean zero."""
    gain = torch.linalg.solve(covariance[seen][:, seen], covariance[seen]).T
    return gain @ x[seen], (covariance - gain @ covariance[seen]).diagonal().clamp_min(0).sqrt()


@pytest.mark.parametrize("dims", [1, 4])
def test_the_joint_gaussian_answers_as_the_closed_form_for_every_evidence(dims):
    x, covariance = gaussian_rows(3, dims)
    values, vectors = torch.linalg.eigh(covariance)
    noise = values[0] / 2
    joint = JointGaussian([(torch.zeros(dims).double(), vectors * (values - noise).sqrt(), noise.expand(dims))])
    masks = torch.cartesian_prod(*[torch.tensor([False, True])] * dims).view(-1, dims)
    for mask in masks:
        mean, std, *_ = joint(x[None], mask.expand(1, 3, dims))
        for row in range(3):
            known_mean, known_std = conditional(covariance, x[row], mask)
            assert torch.allclose(mean[0, row][~mask], known_mean[~mask])
            assert torch.allclose(std[0, row][~mask], known_std[~mask])


@pytest.mark.parametrize(("full_rank", "tolerance"), [(40, 0.1), (3, 0.1)])
def test_the_fit_to_incomplete_rows_finds_the_covariance(monkeypatch, full_rank, tolerance):
    """By EM on the covariance, and by EM on the loadings of a covariance of (here) no lower rank."""
    monkeypatch.setattr("mac_policy.rows.imputer.linear.FULL_RANK", full_rank)
    monkeypatch.setattr("mac_policy.rows.imputer.linear.RANK", 4)
    x, covariance = gaussian_rows(4000, 4)
    observed = torch.rand(x.shape, generator=generator(3)) > 0.3
    _, loadings, noise = fit_gaussian(torch.where(observed, x, torch.nan), observed)
    assert (loadings @ loadings.T + torch.diag(noise) - covariance).abs().max() < tolerance


def test_a_fit_with_equal_columns_keeps_a_variance():
    x = gaussian_rows(100, 1)[0].expand(100, 3)
    joint = JointGaussian([fit_gaussian(x, torch.ones(100, 3, dtype=torch.bool))])
    mean, std, *_ = joint(torch.full((1, 1, 3), 2.0).double(), torch.tensor([[[True, False, True]]]))
    assert float(mean[0, 0, 1]) == pytest.approx(2, abs=0.05)
    assert 0 < float(std[0, 0, 1]) < 0.2


def test_one_wild_cell_is_capped_and_the_rest_is_not():
    x = np.random.default_rng(0).normal(size=30)
    low, high = caps(np.append(x, 1e6))
    assert low < x.min()
    assert x.max() < high < 20
    heavy = np.append(np.zeros(90), np.full(10, 5.0))  # quartiles are equal, ends are not rare
    assert caps(heavy)[1] >= 5
    assert caps(np.append(np.zeros(999), 1.0))[1] == 1
    assert caps(np.array([-1e308] * 5 + [0.0] * 5 + [1e308] * 5)) == (-np.inf, np.inf)


def test_a_number_far_beyond_the_caps_is_not_read():
    """Whatever it is, the row is imputed as if the cell were missing; within the caps it says something."""
    model = TableModel(steps=100, width=16, random_state=0).fit(table())
    given = {"a": [None] * 4, "b": [30.0, 1e4, -1e9, None], "c": [None] * 4, "d": ["x"] * 4}
    found = [model.conditionals({name: values[row : row + 1] for name, values in given.items()}) for row in range(4)]
    means = [float(each["a"].mean[0]) for each in found]
    assert abs(means[0] - means[3]) > 1
    np.testing.assert_allclose(means[1:3], means[3], rtol=1e-9)
    first = model.log_prob({"b": [1e4], "a": [0.3]}, query=["a"], given=["b"])  # along a path, too
    np.testing.assert_allclose(first, model.log_prob({"a": [0.3]}, query=["a"]), rtol=1e-9)


def test_a_wild_cell_of_the_fit_changes_little():
    clean = table()
    wild = {name: values.copy() for name, values in clean.items()}
    wild["b"][np.flatnonzero(~np.isnan(wild["b"]))[3]] = 1e7
    first, second = (TableModel(steps=200, width=16, random_state=0).fit(each) for each in (clean, wild))
    asked = {"a": np.linspace(-1, 1, 5)}
    np.testing.assert_allclose(*(m.conditionals(asked)["b"].std for m in (first, second)), rtol=0.5)
    np.testing.assert_allclose(*(m.conditionals(asked)["b"].mean for m in (first, second)), atol=2)


def table(rows=200, seed=0):
    rng = np.random.default_rng(seed)
    a = rng.normal(size=rows)
    found = {
        "a": a,
        "b": 10 * a + rng.normal(size=rows),
        "c": np.where(a + 0.5 * rng.normal(size=rows) > 0, "up", "down").astype(object),
        "d": np.array(["x", "y", "z"], dtype=object)[rng.integers(3, size=rows)],
    }
    for values in found.values():
        values[rng.random(rows) < 0.2] = None if values.dtype == object else np.nan
    return found


def encoded(found):
    columns = Columns.of(found)
    values, missing = columns.encode(found)
    return columns, values.masked_fill(missing, torch.nan)


@pytest.mark.parametrize("known", [(), (0,), (0, 1), (0, 1, 3)])
def test_classes_are_told_apart_by_bayes_rule(known):
    """The density of what is known under each class, from the joint covariance, times the share of the class."""
    columns, rows = encoded(table())
    members = members_of(columns, rows, columns.head(3))
    dims = members.categories[0][1]
    x, observed = members.encoding.of_rows(rows[~rows.isnan().any(1)][:6])
    seen = torch.isin(members.encoding.owner, torch.tensor(known)) & observed
    x, seen = x[None].expand(2, *x.shape), seen[None].expand(2, *seen.shape)
    given = members.joint(x, seen)
    found = members.linear_logits(given, dims)
    belief = members.joint.belief(x, seen)
    torch.testing.assert_close(members.linear_logits(belief, dims), found)
    scale, center = members.encoding.scale[dims], members.encoding.center[dims]
    inside = torch.arange(dims.start, dims.stop)
    o = torch.isin(members.encoding.owner, torch.tensor(known)).nonzero()[:, 0]
    for member in range(2):
        w, noise, mean = (part[member] for part in (members.joint.loadings, members.joint.noise, members.joint.mean))
        covariance = w @ w.T + noise.diag()
        gain = covariance[o][:, inside] @ torch.linalg.inv(covariance[inside][:, inside])
        left = covariance[o][:, o] - gain @ covariance[inside][:, o]
        for row in range(6):
            logits = []
            for k in range(len(scale)):
                corner = (torch.eye(len(scale), dtype=torch.double)[k] - center) / scale
                share = float(mean[inside][k] * scale[k] + center[k])
                logit = torch.tensor(share, dtype=torch.double).log()
                if len(o):
                    under = mean[o] + gain @ (corner - mean[inside])
                    law = torch.distributions.MultivariateNormal(under, covariance_matrix=(left + left.T) / 2)
                    logit = logit + law.log_prob(x[member, row, o])
                logits.append(logit)
            expected = torch.stack(logits).log_softmax(0).clamp_min(np.log(1e-2))
            torch.testing.assert_close(found[member, row], expected, atol=1e-4, rtol=1e-4)


def members_of(columns, rows, head):
    classes = [len(column.classes) for column in columns.variables]
    encoding = Encoding(rows, classes, head)
    x, observed = encoding.of_rows(rows)
    joint = JointGaussian([fit_gaussian(part, seen) for part, seen in ((x, observed), (x[:100], observed[:100]))])
    sizes = {"num_components": 3, "width": 8, "depth": 1, "dropout": 0.0, "noise": 0.0}
    return Members(joint, encoding, **sizes).double().eval()


def test_an_untrained_member_is_about_the_gaussian():
    columns, rows = encoded(table())
    head = columns.head(3)
    members = members_of(columns, rows, head)
    torch.nn.init.zeros_(members.last.weight)
    observed = ~rows.isnan()
    features = head.features(torch.where(observed, rows, 0.0))
    answers = members(features[None].expand(2, *features.shape), observed[None].expand(2, *observed.shape))
    mean, std, *_ = members.joint(
        *members.encoding(features[None].expand(2, *features.shape), observed.expand(2, 200, 4))
    )
    center, scale = members.encoding.center, members.encoding.scale
    found = (answers.logits.exp() * answers.means).sum(-1)
    assert torch.allclose(found, (mean * scale + center)[..., :2])
    spread = (answers.logits.exp() * (answers.means.square() + (2 * answers.log_stds).exp())).sum(-1) - found.square()
    free = ~observed[:, :2].expand(2, 200, 2)
    assert ((spread.sqrt() / (std * scale)[..., :2])[free] - 1).abs().max() < 0.08
    for logits in answers.classes:
        assert torch.allclose(logits.exp().sum(-1), torch.ones(2, 200).double())


def test_the_ensemble_is_the_mixture_of_its_members():
    columns, rows = encoded(table())
    head, mixed = columns.head(3), columns.head(6).double()
    members = members_of(columns, rows, head)
    one, all_of_them = MemberNetwork(members, head), Ensemble(members, mixed)
    observed = ~rows.isnan()
    x = torch.where(observed, rows, 0.0)
    features = head.features(x)
    each = head(one(features.repeat(2, 1, 1), observed.repeat(2, 1))).log_prob(x.repeat(2, 1)).view(2, *x.shape)
    together = mixed(all_of_them(features, observed)).log_prob(x)
    assert torch.allclose(together, each.logsumexp(0) - np.log(2), atol=0.02)  # standard deviations are bounded twice
    all_of_them.widening.fill_(2.0)
    wide = mixed(all_of_them(features, observed)).parts[0][1]
    all_of_them.widening.fill_(1.0)
    narrow = mixed(all_of_them(features, observed)).parts[0][1]
    assert torch.allclose(wide.mean, narrow.mean)
    second = [
        (part.log_weights.exp() * (part.means.square() + (2 * part.log_stds).exp())).sum(-1) - part.mean.square()
        for part in (wide, narrow)
    ]
    assert torch.allclose(second[0], 4 * second[1], rtol=0.02)


def test_answers_do_not_depend_on_what_is_hidden():
    columns, rows = encoded(table())
    head = columns.head(6).double()
    network = Ensemble(members_of(columns, rows, head), head)
    x = torch.where(rows.isnan(), 0.0, rows)[:8]
    evidence = torch.rand(x.shape, generator=generator()) < 0.5
    other = torch.where(evidence, x, x.flip(0))
    found = [network(head.features(each), evidence) for each in (x, other)]
    assert torch.equal(*found)


@pytest.mark.parametrize("members", [1, 2, 5])
def test_each_half_of_the_held_out_rows_is_shared_with_a_neighbour(members):
    parts = training.split(101, members, 0.2, 0)
    for train, held in parts:
        assert len(held) == 20
        assert sorted([*train.tolist(), *held.tolist()]) == list(range(101))
    for (_, one), (_, next_one) in itertools.pairwise(parts):
        assert torch.equal(one[10:], next_one[:10])
    assert len({row for _, held in parts for row in held.tolist()}) == 10 * (members + 1)


def test_few_rows_are_not_held_out():
    assert [len(held) for _, held in training.split(20, 3, 0.2, 0)] == [0, 0, 0]


def test_calibration_widens_what_is_too_narrow_and_leaves_the_rest():
    columns, rows = encoded({"a": np.random.default_rng(0).normal(size=3000), "b": np.zeros(3000)})
    head = columns.head(6).double()
    held = [torch.arange(2000), torch.arange(1000, 3000)]
    for factor, expected in ((1.0, 1.0), (1.5, 1.5)):
        members = members_of(columns, rows, head)
        torch.nn.init.zeros_(members.last.weight)
        members.joint.noise /= factor**2
        members.joint.loadings /= factor
        ensemble = Ensemble(members, head)
        calibrate(ensemble, rows, held, 0)
        assert float(ensemble.widening[0]) == pytest.approx(expected, abs=0.15)


def test_training_stops_when_the_held_out_loss_no_longer_falls():
    columns, rows = encoded({name: np.random.default_rng(i).normal(size=60) for i, name in enumerate("abc")})
    settings = training.ImputerSettings(**(SETTINGS.__dict__ | {"steps": 1000}))
    _, run = training.trained_model(rows, columns, settings, 0)
    assert run.step < 500
    steps = [int(row["step"]) for row in run.rows]
    assert steps[:3] == [20, 40, 60]
    assert run.best == min(row["validation_loss"] for row in run.rows)


@pytest.mark.parametrize("factorization", training.FACTORIZATIONS)
def test_every_parameter_is_trained(factorization):
    columns, rows = encoded(table())
    settings = training.ImputerSettings(**(SETTINGS.__dict__ | {"factorization": factorization, "steps": 2}))
    _, run = training.trained_model(rows, columns, settings, 0)
    run.backward(0)
    for name, parameter in run.model.named_parameters():
        assert parameter.grad is not None, name
        assert (parameter.grad != 0).any(), name


def test_bins_are_the_shares_of_quantile_intervals_that_a_value_has_passed():
    rows = torch.arange(101.0, dtype=torch.double)[:, None].expand(101, 2)
    columns, _ = encoded({"a": np.arange(101.0), "b": np.arange(101.0)})
    encoding = Encoding(rows, [0, 0], columns.head(3))
    x, observed = encoding.of_rows(rows[[0, 15, 100]])
    bins = encoding.bins(x, observed).view(3, 2, 10)
    assert torch.allclose(bins[0, 0], torch.zeros(10).double())
    assert torch.allclose(bins[1, 0], torch.tensor([1.0, 0.5] + 8 * [0.0]).double())
    assert torch.allclose(bins[2, 0], torch.ones(10).double())
    assert not encoding.bins(x, torch.zeros_like(observed)).any()


def test_wide_tables_and_categories_have_no_bins():
    rows = torch.randn(20, 41, generator=generator()).double()
    columns, few = encoded({"up": np.array(["x", "y"] * 10, dtype=object), "a": np.arange(20.0)})
    assert Encoding(rows, [0] * 41, encoded({"a": np.arange(9.0)})[0].head(3)).bin_dims == 0
    encoding = Encoding(few, [len(column.classes) for column in columns.variables], columns.head(3))
    assert encoding.bins(*encoding.of_rows(few)).shape == (20, 10)


def test_half_of_the_training_masks_lack_few_variables():
    law = MostlyKnown(20)
    masks = law.training_masks(4000, generator())
    lacking = (~masks.evidence).sum(1)
    assert int(lacking.min()) >= 1
    share = float((lacking <= 6).double().mean())
    assert share == pytest.approx(0.5 + 0.5 * 6 / 20, abs=0.03)
    assert torch.allclose(masks.weights.sum(1), torch.ones(4000))
    assert not masks.weights[masks.evidence].any()
    assert law.meets_all(False)


def test_questions_hide_one_observed_value_of_each_row_after_another():
    """Of complete rows a share of the other values is hidden too; variables that are not observed are not asked for."""
    rows = torch.arange(600.0).view(100, 6)
    held = [torch.arange(40), torch.arange(20, 60), torch.arange(40, 80)]
    complete = calibration._questions(rows, held, 0)
    assert complete.x.shape == (3, 2 * 20 * 6, 6)
    assert torch.equal(complete.variable[0, 120:], complete.variable[1, :120])
    assert torch.equal(complete.evidence[1, 120:], complete.evidence[2, :120])
    for member, rows_of in enumerate(held):
        asked = {(float(x[0]) / 6, int(v)) for x, v in zip(complete.x[member], complete.variable[member], strict=True)}
        assert asked == {(float(row), variable) for row in rows_of for variable in range(6)}
    shown = complete.evidence.double().sum(-1).mean()
    assert float(shown) == pytest.approx(5 * 0.9, abs=0.1)
    rows[:, 2:] = torch.nan
    incomplete = calibration._questions(rows, held, 0)
    assert set(incomplete.variable.unique().tolist()) == {-1, 0, 1}
    asked = incomplete.variable >= 0
    assert torch.equal(incomplete.evidence[asked].sum(-1), torch.ones(int(asked.sum()), dtype=torch.long))
    assert not incomplete.evidence[asked].gather(-1, incomplete.variable[asked][:, None]).any()


def test_the_coverage_of_many_members_follows_from_that_of_one_and_of_two():
    """Members with errors of their own, beside a direct count over all members on the same values."""
    members, half, spread = 4, 20_000, 0.6
    blocks = torch.randn(members + 1, half, generator=generator()).double()
    errors = spread * torch.randn(members, 2 * half, generator=generator(1)).double()
    truth = torch.cat([blocks[:-1], blocks[1:]], 1)
    zeros, chosen = torch.zeros(members, 2 * half, 1).double(), torch.ones(members, 2 * half, 1).double()
    parts = (zeros, errors[..., None], zeros)
    y, means = blocks.flatten()[:half], spread * torch.randn(members, half, generator=generator(2)).double()
    for widening in (0.7, 1.0, 1.3):
        below = torch.special.ndtr((y - means) / widening).mean(0)
        direct = [float(((below - 0.5).abs() <= level / 2).double().mean()) for level in calibration.LEVELS]
        expected = sum((found - level) ** 2 for found, level in zip(direct, calibration.LEVELS, strict=True))
        of_all, of_each = calibration._misses(parts, truth, chosen, widening)
        assert float(of_all) == pytest.approx(expected, abs=0.004)
        assert float(of_each[0]) == pytest.approx(float(of_all))


def test_members_that_disagree_are_narrowed():
    columns, rows = encoded({"a": np.random.default_rng(0).normal(size=3000), "b": np.ones(3000)})
    head = columns.head(6).double()
    held = [torch.arange(2000), torch.arange(1000, 3000)]
    found = []
    for gap in (0.0, 0.5):
        members = members_of(columns, rows, head)
        torch.nn.init.zeros_(members.last.weight)
        members.joint.mean[0], members.joint.mean[1] = -gap, gap
        ensemble = Ensemble(members, head)
        calibrate(ensemble, rows, held, 0)
        found.append(float(ensemble.widening[0]))
    assert found[0] == pytest.approx(1, abs=0.1)
    assert found[1] == pytest.approx((1 - 0.5**2) ** 0.5, abs=0.1)  # the variance of the mixture is 1


def test_steps_of_wide_tables_take_fewer_rows():
    assert SETTINGS.rows_each() == SETTINGS.rows_each(40) == 16
    wide = training.ImputerSettings(**(SETTINGS.__dict__ | {"batch_size": 200}))
    assert wide.rows_each(40) == 100
    assert wide.rows_each(80) == 50
    assert wide.rows_each(4000) == 16
