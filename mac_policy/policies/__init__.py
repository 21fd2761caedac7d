"""Policies with one contract: command any subset of an action's dimensions, get the whole action."""
