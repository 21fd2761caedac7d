"""The variables of a table: their names, kinds, classes and scales, and the way between tables and tensors."""

from mac_policy.rows.columns.column import KINDS, Column
from mac_policy.rows.columns.columns import Columns

__all__ = ["KINDS", "Column", "Columns"]
