"""Every public call with right arguments, and the kinds of wrong ones for each argument."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import torch
from gymnasium import spaces

import mac_policy as package
from mac_policy.core import UniformCardinality
from mac_policy.core.heads import GaussianMixture
from mac_policy.core.networks import MLP
from tests.evaluation.small_environments import Line
from tests.policies.conftest import ACTION, OBSERVATION, SPACES, make

N = 5
NAN, INF = float("nan"), float("inf")
NUMBERS = ("x", [1], {}, object(), NAN, INF, -INF)


class Unreadable:
    def __array__(self, *args: Any, **settings: Any) -> Any:
        raise RuntimeError("no array")


WRONG: dict[str, tuple[Any, ...]] = {
    "count": (*NUMBERS, 0, -1, 1.5, True, None, 10**30),
    "optional count": (*NUMBERS, 0, -1, 1.5, True, 10**30),
    "seed": (*NUMBERS, -1, 1.5, None, 10**30),
    "wholes": ("x", {}, object(), NAN, INF, 1.5, None, 10**30, [[1.5]]),
    "share": (*NUMBERS, -0.1, 1.1, None),
    "temperature": (*NUMBERS, -1, True, 10**400),
    "size": (*NUMBERS, 0, -1, 1.5, True, None, 10**12, 10**30),
    "milliseconds": (*NUMBERS, 0, -1, True, 1e300, 10**400),
    "limit": ("x", {}, object(), 0, -1, NAN, [[1], [1, 2]], np.zeros(7)),
    "flag": ("yes", "", 2, [1], {}, object(), NAN),
    "generator": (0, "x", [1], True, object(), np.random.default_rng(0), torch.Generator),
    "name": ("", "nope", 5, None, [1], {}, object(), "../x", NAN),
    "folder": ("nowhere", 5, None, [1], {}, object(), "a\0b"),
    "mapping": ("x", 5, [1], object(), {"nope": 1}, {1: 2}),
    "object": ("x", 5, None, [1], {}, object()),
    "observation": (
        "x", None, {}, object(), Unreadable(), [[1.0], [1.0, 2.0]], np.zeros(OBSERVATION + 1), np.zeros((1, 1, 1, 1)),
        np.zeros(0), np.full(OBSERVATION, NAN), np.full(OBSERVATION, "1"), np.zeros(OBSERVATION, complex), 1.0,
    ),
    "action": (
        "x", {}, object(), Unreadable(), [[1.0], [1.0, 2.0]], np.zeros(ACTION + 1), np.zeros((7, ACTION)), np.zeros(0),
        np.full(ACTION, NAN), np.full(ACTION, INF), np.full(ACTION, 9.0), np.full(ACTION, "1"),
        np.zeros(ACTION, complex),
    ),
    "mask": (
        "x", {}, object(), Unreadable(), [True], np.ones((7, ACTION), bool), np.full(ACTION, 2), np.full(ACTION, NAN),
        np.full(ACTION, "1"), np.full(ACTION, 0.5), np.zeros(0, bool), 1,
    ),
    "labels": ("x", 5, object(), {"nope": 1}, {"task": "nope"}, {"task": 7}, {"task": [0, 1]}, [0.5, 0.5], [9, 9],
               {"task": NAN}, {"task": {}}),
    "values": (
        "x", None, {}, [[0.0] * N], np.zeros((2, N)), torch.zeros(N), torch.zeros(2, N + 1), torch.zeros(2, N, 1),
        torch.full((2, N), NAN), torch.full((2, N), INF), torch.zeros(2, N, dtype=torch.complex64),
    ),
    "tensor mask": (
        "x", 5, {}, [True] * N, np.ones(N, bool), torch.ones(N), torch.ones(3, N, dtype=torch.bool),
        torch.ones(2, N + 1, dtype=torch.bool), torch.ones(2, N, dtype=torch.long), torch.ones(0, dtype=torch.bool),
    ),
    "factorization": ("mac", 5, {}, object()),
    "order": ("x", [0], [0] * N, [0, 1, 2, 3, 9], [0.5] * N, {}, 5),
    "shape": ("x", {}, (), (0,), (-1,), (2, 2, 2), 1.5, [None]),
    "box": ("x", 5, None, spaces.Discrete(3), spaces.Box(-1, 1, (2, 2)), spaces.Dict({})),
    "bounded box": (spaces.Box(-np.inf, np.inf, (2,)), spaces.Box(0, np.inf, (2,)), "x", spaces.Discrete(2)),
    "dims": ("x", -1, 1.5, [0, 0], [9], ["nope"], [0.5], {}, None, object(), "random-9", NAN, [[0]], True, "[", "",
             "[" * 100_000, "9" * 5000),
    "episodes": ((), "x", 5, None, [1], [None]),
    "table": ("x", 5, None, {}, [], object(), {"nope": [1.0]}, np.zeros((3, 7)), np.zeros((2, 2, 2)), {"a": [[1.0]]},
              np.zeros((0, 3)), np.full((4, 3), INF), np.full((4, 3), 1j)),
    "columns": ("a", 5, ["nope"], [None], {}, [[0]], ["a", "a"]),
    "kind": ("x", 5, None, object, int, [1]),
    "array": ("x", None, 5, [["a"]], np.zeros((3, 1, 1)), np.full((5, OBSERVATION), NAN), Unreadable(), {}),
}  # fmt: skip


class Call(NamedTuple):
    """A public call."""

    function: Callable[..., Any]
    right: dict[str, Any]
    """Arguments with which it works."""
    kinds: dict[str, str]
    """The kind of each argument that is attacked."""
    fine: Mapping[str, tuple[Any, ...]] = MappingProxyType({})
    """Values of a kind that are right here after all, by argument."""


def policy_calls(policy: Any, name: str, labelled: bool) -> dict[str, Call]:
    obs, command = np.zeros(OBSERVATION, np.float32), np.zeros(ACTION, np.float32)
    right = {"obs": obs, "command": command, "mask": np.arange(ACTION) < 1}
    kinds = {"obs": "observation", "command": "action", "mask": "mask", "generator": "generator",
             "temperature": "temperature", "deterministic": "flag"}  # fmt: skip
    kinds |= {"labels": "labels"} if labelled else {}
    found = {
        f"{name}.act": Call(policy.act, right, kinds),
        f"{name}.step": Call(policy.step, right, kinds | {"state": "object"}, {"state": (None,)}),
        f"{name}.predict": Call(
            policy.predict, {"observation": obs, "state": policy.initial_state(1)},
            {"observation": "observation", "state": "object", "episode_start": "mask", "deterministic": "flag"},
            {"state": (None,), "episode_start": (1, [True])}),
        f"{name}.seed": Call(policy.seed, {}, {"seed": "seed"}),
        f"{name}.initial_state": Call(policy.initial_state, {}, {"n": "size"}, {"n": (0,)}),
        f"{name} state": Call(
            lambda **changed: policy.step(obs[None], replace(policy.step(obs[None])[1], **changed)), {},
            {"history": "array", "plan": "array", "age": "array", "fresh": "array"}),
        f"{name} filter": Call(
            lambda **changed: package.ActionFilter(Line(), policy, 1, **changed), {},
            {"see_operator": "flag", "deterministic": "flag", "likelihood": "flag", "seed": "seed", "rest": "action",
             "temperature": "temperature", "deadline_ms": "milliseconds", "max_change": "limit"}),
    }  # fmt: skip
    if policy.has_likelihood:
        found[f"{name}.log_prob"] = Call(
            policy.log_prob, {"obs": obs, "action": command}, {"obs": "observation", "action": "action",
            "query": "mask", "given": "mask"}, {"action": WRONG["action"][10:11]})  # fmt: skip
    if labelled:
        found[f"{name}.belief"] = Call(
            policy.belief, right, {key: kinds[key] for key in ("obs", "command", "mask", "labels")}
        )
    return found


def engine_calls() -> dict[str, Call]:
    head = GaussianMixture(2)
    network = MLP(num_variables=N, num_features=head.num_features, num_params=head.num_params, width=8, depth=1)
    model = package.AnyOrderModel(network, head)
    paths = package.MaskTuned(UniformCardinality(N))
    given = torch.arange(N) < 2
    right = {"x": torch.zeros(2, N), "given": given, "factorization": paths}
    masks = {"given": "tensor mask", "factorization": "factorization", "generator": "generator"}
    return {
        "AnyOrderModel": Call(
            partial(package.AnyOrderModel, network, head), {}, {"rows_per_pass": "optional count"}),
        "AnyOrderModel.log_prob": Call(
            model.log_prob, {**right, "query": ~given}, {"x": "values", "query": "tensor mask", **masks}),
        "AnyOrderModel.sample": Call(model.sample, right, {"x": "values", **masks, "temperature": "temperature",
                                                           "steps": "optional count"}),
        "AnyOrderModel.conditionals": Call(
            model.conditionals, {"x": torch.zeros(2, N), "evidence": given},
            {"x": "values", "evidence": "tensor mask", "generator": "generator"}),
        "MaskTuned": Call(
            package.MaskTuned, {"test_masks": UniformCardinality(N), "order": list(range(N))},
            {"test_masks": "factorization", "order": "order", "protocol": "name", "weights": "name"}),
        "MaskTuned.training_masks": Call(paths.training_masks, {"n": 2}, {"n": "count", "generator": "generator"},
                                         {"n": (0,)}),
        "MaskTuned.ranks": Call(paths.ranks, {"query": ~given[None], "given": given[None]},
                                {"query": "tensor mask", "given": "tensor mask", "generator": "generator"}),
        "UniformOrder": Call(package.UniformOrder, {}, {"num_variables": "count"}),
        "StagedModes": Call(package.StagedModes, {"shape": (4, 4)}, {"shape": "shape", "channels": "count"}),
    }  # fmt: skip


def data_calls() -> dict[str, Call]:
    zeros = np.zeros((5, OBSERVATION), np.float32)
    episode = {
        "observations": np.zeros((6, OBSERVATION), np.float32), "actions": np.zeros((5, ACTION), np.float32),
        "rewards": np.zeros(5, np.float32), "terminations": np.zeros(5, bool), "truncations": np.zeros(5, bool),
    }  # fmt: skip
    one = package.Episode(**episode)
    whole = package.Demonstrations.of([one] * 4, name="x", kind="scripted")
    made = package.Demonstrations.of
    return {
        "Demonstrations.of": Call(
            lambda **changed: made([package.Episode(**{**episode, **changed})], name="x", kind="scripted"), {},
            {"observations": "array", "actions": "array", "rewards": "array"}),
        "Demonstrations.of episodes": Call(made, {"episodes": [one], "name": "x", "kind": "scripted"},
                                           {"episodes": "episodes"}),
        "Demonstrations.windows": Call(whole.windows, {}, {"history": "count", "horizon": "count"}),
        "Demonstrations.split": Call(whole.split, {"fraction": 0.5, "seed": 0}, {"fraction": "share", "seed": "seed"}),
        "Demonstrations.select": Call(whole.select, {}, {"indices": "columns"}),
        "read_minari": Call(package.read_minari, {}, {"dataset": "folder"}),
        "train": Call(
            package.train,
            {"policy": make("bc"), "demos": whole, "settings": package.TrainSettings(steps=1), "folder": "out"},
            {"policy": "object", "demos": "object", "settings": "object", "folder": "folder", "seed": "seed",
             "resume": "flag"}, {"folder": ("nowhere",)}),
        "zeros": Call(lambda obs: make("bc").act(obs), {"obs": zeros}, {}),
    }  # fmt: skip


def making_calls() -> dict[str, Call]:
    box, action = spaces.Box(-1, 1, (3,)), spaces.Box(-1, 1, (2,))
    dims = package.OperatorDims.parse(1, action_dim=2)
    return {
        "Spaces.of": Call(package.Spaces.of, {"observation": box, "action": action},
                          {"observation": "box", "action": "bounded box", "labels": "episodes", "actions": "object"},
                          {"actions": (None,), "labels": ((),)}),
        "Label": Call(package.Label, {"name": "task", "classes": ("a", "b")}, {"name": "name", "classes": "columns"},
                      {"name": ("nope", "../x")}),
        "Actions": Call(package.Actions, {}, {"names": "columns", "units": "columns", "meaning": "name",
                                              "observed": "columns", "scale": "columns"},
                        {"names": (["nope"],), "units": (["nope"], ["a", "a"])}),
        "make_policy": Call(package.make_policy, {"kind": "bc", "spaces": SPACES, "settings": {"width": 4}},
                            {"kind": "name", "spaces": "object", "settings": "mapping", "seed": "seed"}),
        "load_policy": Call(package.load_policy, {}, {"folder": "folder"}),
        "load_policy saved": Call(
            lambda **changed: package.load_policy(package.save_policy(make("bc"), "saved"), **changed), {},
            {"device": "name", "spaces": "object", "settings": "mapping", "weights": "name"},
            {"spaces": (None,)}),
        "save_policy": Call(package.save_policy, {"policy": make("bc"), "folder": "saved"},
                            {"policy": "object", "folder": "folder"}, {"folder": ("nowhere",)}),
        "register_policy": Call(package.register_policy, {}, {"policy_class": "kind"}),
        "register_operator": Call(package.register_operator, {}, {"kind": "kind"}),
        "register_task": Call(package.register_task, {}, {"task": "kind"}),
        "OperatorDims.parse": Call(package.OperatorDims.parse, {"spec": 1, "action_dim": ACTION},
                                   {"spec": "dims", "action_dim": "count"}),
        "OperatorDims.masks": Call(dims.masks, {"seeds": 0}, {"seeds": "wholes", "step": "wholes"}),
        "make_operator": Call(package.make_operator, {"kind": "zeros", "dims": dims},
                              {"kind": "name", "dims": "object", "batch": "count"}),
        "make_operator noisy": Call(
            package.make_operator, {"kind": "noisy", "dims": dims, "inner": "zeros", "space": action},
            {"p": "share", "inner": "name", "space": "box"}),
        "operator": Call(package.make_operator("zeros", dims), {}, {"observations": "observation"},
                         {"observations": (*WRONG["observation"][6:10],)}),
        "TrainSettings": Call(package.TrainSettings, {}, {"steps": "count", "learning_rate": "share",
                                                          "batch_size": "size", "tensorboard": "flag",
                                                          "devices": "count"},
                              {"learning_rate": (1.1,), "devices": (-1,)}),
        "PolicySettings": Call(package.PolicySettings, {}, {"history": "count", "labels": "flag",
                                                            "representation": "name"}),
        "TASKS.find": Call(package.TASKS.find, {}, {"name": "name"}),
        "POLICIES.find": Call(package.POLICIES.find, {}, {"name": "name"}),
        "OPERATORS.find": Call(package.OPERATORS.find, {}, {"name": "name"}),
        "Task.with_options": Call(package.TASKS.find("minari").with_options, {},
                                  {"options": "mapping", "dataset": "object"},
                                  {"options": (), "dataset": ("x", None)}),
    }  # fmt: skip


def table_calls() -> dict[str, Call]:
    table = {"a": np.arange(40.0), "b": np.arange(40.0) % 7, "c": np.array(["x", "y"] * 20)}
    model = package.TableModel(steps=2, width=8).fit(table)
    numbers = np.random.default_rng(0).normal(size=(30, 3))
    numbers[::5, 0] = np.nan
    imputer = package.Imputer(members=1, steps=2, width=8, random_state=0).fit(numbers)
    fit = package.Imputer(members=1, steps=2, width=8)
    no_rows = WRONG["table"][10]
    return {
        "TableModel": Call(package.TableModel, {}, {"random_state": "seed", "steps": "count", "kinds": "object"},
                           {"kinds": (None, {})}),
        "TableModel.fit": Call(lambda table: package.TableModel(steps=1, width=4).fit(table), {}, {"table": "table"}),
        "TableModel.log_prob": Call(model.log_prob, {"table": table},
                                    {"table": "table", "query": "columns", "given": "columns"},
                                    {"table": ({}, [], no_rows), "query": ({}, ["a", "a"]), "given": ({}, ["a", "a"])}),
        "TableModel.sample": Call(model.sample, {}, {"known": "table", "n_samples": "count", "random_state": "seed"},
                                  {"known": (None, {}, [], no_rows), "random_state": (None,)}),
        "TableModel.conditionals": Call(model.conditionals, {}, {"known": "table"}, {"known": (None, {}, [], no_rows)}),
        "TableModel.load": Call(package.TableModel.load, {}, {"folder": "folder"}),
        "Imputer.fit": Call(fit.fit, {}, {"X": "table"}, {"X": (WRONG["table"][7],)}),
        "Imputer.transform": Call(imputer.transform, {}, {"X": "table"}),
        "Imputer.sample": Call(imputer.sample, {"X": numbers},
                               {"n_samples": "count", "random_state": "seed", "X": "table"}, {"random_state": (None,)}),
        "Imputer settings": Call(
            lambda **changed: package.Imputer(**{"members": 1, "steps": 1, **changed}).fit(numbers), {},
            {"members": "size", "dropout": "share", "fill": "name", "random_state": "seed", "width": "size",
             "depth": "size", "batch_size": "size", "num_components": "size",
             "device": "name", "n_jobs": "count"}, {"random_state": (None,), "n_jobs": (None, -1)}),
    }  # fmt: skip


def public_calls() -> dict[str, Call]:
    """All of them by name, without those of tables, which have to be fitted first."""
    return {
        **policy_calls(make("bc"), "bc", False),
        **policy_calls(make("mac", decode="sample"), "mac", False),
        **policy_calls(make("mac", labelled=True), "mac with labels", True),
        **engine_calls(),
        **data_calls(),
        **making_calls(),
    }


def is_fine(call: Call, argument: str, value: Any) -> bool:
    return any(value is each or (type(value) is type(each) and str(value) == str(each))
               for each in call.fine.get(argument, ()))  # fmt: skip
