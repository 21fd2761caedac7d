"""Training of policies: on a laptop's two cores, on a GPU, on many machines, without a code change."""
