"""How many operations the tables have; a hunt adds a test for each."""

from gradcheck.operations.registry import REGISTERED


def test_no_table_has_become_empty():
    names = list(REGISTERED)
    assert sum(name.startswith("tfp_") for name in names) >= 350
    assert sum(name.startswith("gpflow_") for name in names) >= 90
