"""Imputation of missing values: a scikit-learn estimator on an any-order model.

>>> from mac_policy.rows.imputer import Imputer
>>> Imputer(fill="median").get_params()["fill"]
'median'
"""

from mac_policy.rows.imputer.estimator import Imputer

__all__ = ["Imputer"]
