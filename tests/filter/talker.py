"""A person who says labels, in actions, at reset and by calls, rightly and wrongly; what the policy must be told."""

import numpy as np
import pytest

from mac_policy.common.labels import UNSAID, Ahead, categories, is_said, unsaid
from tests.policies.conftest import LABELS

SPOKEN = (*LABELS, Ahead("x", 0, 5))
WRONG_CALLS = ({"task": "ketle"}, {"nope": 1}, {"x": 1e6}, {"x": "left"}, {"x": np.inf}, {"task": 7}, {"side": 0.5})
NO_TRUTHS = ("yes", None, [2], [[1, 0], [1]], 1.5, {"x": 1})


class Talker:
    """What is said to a filter of so many rows; `ranges` are those of the numbers."""

    def __init__(self, env, batch, rng, hostile):
        self.env, self.batch, self.rng, self.hostile = env, batch, rng, hostile
        self.range = env.completion.filler.policy.label_ranges[0]
        self.lasting = self.nothing()
        self.told = self.answers = 0

    def nothing(self):
        return unsaid(SPOKEN, self.batch)

    def forget(self, rows):
        self.lasting = np.where(rows[:, None], self.nothing(), self.lasting)

    def options(self):
        """The options of a reset, some of which say labels; the environment is never reset by wrong ones."""
        self.try_in_vain(lambda wrong: self.env.reset(options={"labels": wrong}))
        if self.rng.random() < 0.5:
            return None
        words, codes = self.words()
        named = np.array([label.name in words for label in SPOKEN])
        self.lasting = np.where(named, codes, self.lasting)
        return {"labels": words}

    def call(self):
        """`say` some labels from now on, and in vain some that are none."""
        self.try_in_vain(lambda wrong: self.env.say(**wrong))
        words, codes = self.words()
        self.env.say(**words)
        named = np.array([label.name in words for label in SPOKEN])
        self.lasting = np.where(named, codes, self.lasting)

    def try_in_vain(self, call):
        if self.rng.random() < 0.3:
            with pytest.raises(ValueError, match="label"):
                call(WRONG_CALLS[self.rng.integers(len(WRONG_CALLS))])

    def words(self):
        """{label: what is said of it}, for each row or for all, and the codes of that."""
        words, codes = {}, self.nothing()
        for column, label in enumerate(SPOKEN):
            if self.rng.random() < 0.5:
                continue
            each = [self.word(label) for _ in range(self.batch)]
            words[label.name] = each if self.batch > 1 else each[0]
            codes[:, column] = [codes[0, column] if word is None else label.code(word) for word in each]
        return words, codes

    def word(self, label):
        if self.rng.random() < 0.3:
            return None
        if isinstance(label, Ahead):
            return float(self.rng.uniform(*self.range))
        code = int(self.rng.integers(len(label.classes)))
        return code if self.rng.random() < 0.5 else label.classes[code]

    def entries(self):
        """The entries of an action for the labels, and the codes that a policy must be told because of them."""
        entries, codes = {}, self.nothing()
        counts = np.ones(self.batch, bool)
        kind = self.rng.random()
        if kind < 0.6:
            counts = self.rng.random(self.batch) < 0.7
            entries["said"] = self.one(counts[:, None].astype(self.rng.choice([bool, np.int8, np.float64])))
        elif kind < 0.75:
            counts[:] = False
            entries["said"] = self.wrong(NO_TRUTHS)
        for column, label in enumerate(SPOKEN):
            if self.rng.random() < 0.2:
                continue
            if self.rng.random() < 0.2:
                entries[label.name] = self.wrong(("left", None, [[0.0], [0.0, 1.0]], np.zeros(self.batch + 1, int), 1j))
            elif isinstance(label, Ahead):
                values = self.rng.normal(0, 8, self.batch)
                values[self.rng.random(self.batch) < 0.2] = self.rng.choice([np.nan, np.inf, -np.inf])
                entries[label.name] = self.one(values)
                codes[:, column] = np.where(
                    np.isfinite(values) & counts, np.clip(values, *self.range), np.nan
                )  # what is no finite number is not said
            else:
                values = self.rng.integers(-3, len(label.classes) + 2, self.batch)
                entries[label.name] = self.one(values.astype(self.rng.choice([np.int8, np.int64])))
                codes[:, column] = np.where((values >= 0) & (values < len(label.classes)), values, UNSAID)
        return entries, np.where(is_said(SPOKEN, codes), codes, self.lasting)

    def one(self, rows):
        return rows if self.batch > 1 else rows[0]

    def wrong(self, kinds):
        pool = (*kinds, *self.hostile)
        return pool[self.rng.integers(len(pool))]

    def check(self, told, expected):
        """The policy was told just what is said."""
        np.testing.assert_array_equal(told, expected)
        self.told += int(is_said(SPOKEN, expected).sum())

    def check_answer(self, report, rows, told):
        """The report of a policy's own answer says what it assumes and believes; of what is said nothing else."""
        self.answers += int(rows.sum())
        for column, label in enumerate(SPOKEN):
            assumed = np.atleast_1d(report[f"assumed/{label.name}"])[rows]
            said = is_said(SPOKEN, told)[rows, column]
            np.testing.assert_array_equal(assumed[said], told[rows, column][said])
        for label in categories(SPOKEN):
            belief = np.atleast_2d(report[f"belief/{label.name}"])[rows]
            assert belief.shape == (rows.sum(), len(label.classes))
            assert ((belief >= 0) & (belief <= 1)).all()
            np.testing.assert_allclose(belief.sum(1), 1)
