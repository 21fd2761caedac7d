"""Filling the holes of a table: an estimator as those of scikit-learn, over the any-order engine.

>>> from mac_policy.rows.imputer import Imputer
>>> Imputer(fill="median").get_params()["fill"]
'median'
"""

from mac_policy.rows.imputer.estimator import Imputer

__all__ = ["Imputer"]
