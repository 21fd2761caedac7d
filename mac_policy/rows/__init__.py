"""Models of rows of text, images and tables: methods, training, likelihoods, generation, acquisition, imputation.

>>> from mac_policy.rows.methods import METHODS
>>> "mac" in METHODS
True
"""
