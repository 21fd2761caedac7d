"""Shared autonomy: operators, filled-in actions, and what they achieve."""
