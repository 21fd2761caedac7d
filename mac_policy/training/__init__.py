"""The training loop of any model: settings, steps, resuming, random streams."""
