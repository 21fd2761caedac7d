"""Any-order models of text, images and tables: arms, training, likelihoods, infilling.

>>> from mac_policy.rows.methods import ARMS
>>> "mac" in ARMS
True
"""
