"""A trained ensemble from its saved weights."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from mac_policy.common.folders import fill
from mac_policy.core import AnyOrderModel
from mac_policy.rows.columns import Columns
from mac_policy.rows.columns.column import FURTHEST
from mac_policy.rows.imputer.encoding import Encoding
from mac_policy.rows.imputer.linear import JointGaussian
from mac_policy.rows.imputer.members import Ensemble, Members
from mac_policy.rows.table_model.settings import TableSettings

JOINT, ENCODING = "network.members.joint.", "network.members.encoding."


def restored(columns: Columns, settings: TableSettings, tensors: Mapping[str, Tensor], path: Path) -> AnyOrderModel:
    """The model with these weights of a file. An error if they are not those of such a model."""
    sizes = [len(column.classes) for column in columns.variables]
    head = columns.head(settings.num_components)
    mixed = columns.head(settings.num_components * settings.members).double()
    encoding = Encoding(torch.zeros(2, len(sizes), dtype=torch.float64), sizes, head)
    means, loadings, noises = (tensors[JOINT + name].double() for name in ("mean", "loadings", "noise"))
    members = Members(
        JointGaussian(list(zip(means, loadings, noises, strict=True))),
        encoding,
        num_components=settings.num_components,
        width=settings.width,
        depth=settings.depth,
        dropout=settings.dropout,
        noise=settings.noise,
    )
    model = AnyOrderModel(Ensemble(members, mixed).double(), mixed, validate=False)
    ends = torch.full((len(sizes),), 2 * FURTHEST, dtype=torch.float64)
    fill(
        model, {f"{ENCODING}least": -ends, f"{ENCODING}most": ends, **tensors}, path
    )  # earlier models read all numbers
    return model.eval().requires_grad_(False)
