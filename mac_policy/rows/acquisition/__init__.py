"""Active information acquisition: the error of a target against the number of acquired variables, in several orders.

>>> from mac_policy.rows.acquisition.curves import AcquisitionSettings
>>> AcquisitionSettings().orders
('model', 'shared', 'fixed', 'random')
"""
