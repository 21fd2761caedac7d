"""Who commands. The import registers the kinds of operators of these modules."""

from mac_policy.operators import from_file, simple, spoilers  # noqa: F401
