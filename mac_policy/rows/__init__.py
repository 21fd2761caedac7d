"""Any-order models of text, images and tables: arms, training, likelihoods, infilling.

>>> from mac_policy.rows.methods import METHODS
>>> "mac" in METHODS
True
"""
