"""Shared autonomy for robots with any-order models."""

__version__ = "0.1.0"
