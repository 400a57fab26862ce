from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradcheck.hunt.configuration import Shard


@given(st.integers(1, 40), st.text())
def test_every_name_is_in_exactly_one_share(count: int, name: str) -> None:
    assert sum(Shard(number, count).takes(name) for number in range(1, count + 1)) == 1


def test_shares_are_about_equal_and_always_the_same() -> None:
    names = [f"tests/properties/test_operations.py::test_operation[op{n}-order1]" for n in range(1000)]
    sizes = [sum(Shard(number, 4).takes(name) for name in names) for number in (1, 2, 3, 4)]
    assert sizes == [247, 211, 261, 281]


def test_it_is_read_and_written_in_the_same_way() -> None:
    assert Shard.parse("3/16") == Shard(3, 16)
    assert str(Shard.parse("3/16")) == "3/16"


@pytest.mark.parametrize("text", ["", "1", "0/4", "5/4", "1/0", "a/b", "1/4 ", "-1/4", "1/99999", "01/4"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected K/N with K from 1 to N"):
        Shard.parse(text)
