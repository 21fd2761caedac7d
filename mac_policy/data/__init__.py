"""Demonstrations (Minari, D4RL hdf5) and benchmark data sets."""
