"""Reports of rollouts: statistics, tables, figures, a film."""
