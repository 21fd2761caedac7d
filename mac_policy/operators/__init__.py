"""Who commands. The import registers the kinds of operators of these modules."""

from mac_policy.operators import from_file, people, simple, spoilers  # noqa: F401
