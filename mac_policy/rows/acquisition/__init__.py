"""What looking at variables one by one is worth: error of a target against how many are known, in several orders.

>>> from mac_policy.rows.acquisition.settings import AcquisitionSettings
>>> AcquisitionSettings().orders
('model', 'shared', 'fixed', 'random')
"""
