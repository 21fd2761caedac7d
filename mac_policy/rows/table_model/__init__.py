"""Any-order models of tables: fit, log_prob, sample, conditionals, save and load."""

from mac_policy.rows.table_model.answers import CategoryConditional, NumberConditional
from mac_policy.rows.table_model.model import TableModel
from mac_policy.rows.table_model.settings import TableSettings

__all__ = ["CategoryConditional", "NumberConditional", "TableModel", "TableSettings"]
