"""The comparison of imputers: tables, hidden cells, imputers, errors."""
