"""Measuring policies: arms of a comparison, rollouts, their store, reports."""
