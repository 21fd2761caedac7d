"""No test of this folder reads or writes a store of the user's, nor asks the network."""

from tests.demonstrations.conftest import store  # noqa: F401
