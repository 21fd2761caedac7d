"""What rollouts come to: statistics, tables, figures, a film."""
