"""Tables of values, mapped into intervals."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from gradcheck.strategies.values import STYLES, is_special, literal, smooth, table, without_zeros
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st

from gradcheck.operations.catalogue import CATALOGUE
from gradcheck.operations.spec import POSITIVE, REALS, Interval

INTERVALS = [
    REALS,
    POSITIVE,
    Interval(high=0.0),
    Interval(0.0, 1.0),
    Interval(-1.0, 1.0),
    Interval(1.0),
    Interval(0.125, 0.126),
    Interval(50.0),
    Interval(high=-7.0),
    *dict.fromkeys(interval for spec in CATALOGUE.values() for interval in spec.domains),
]


@pytest.mark.parametrize("style", dict.fromkeys(STYLES))
def test_a_table_lies_inside_its_interval(style: str) -> None:
    least = 1e-13 if style == "wide" else 1e-6
    tables = {interval: table(interval, style) for interval in INTERVALS}
    offenders = {
        interval: values
        for interval, values in tables.items()
        if len(values) < 3
        or not interval.contains(np.array(values))
        or not all(value == 0 or abs(value) > least for value in values)
    }
    assert offenders == {}


def test_wide_values_lie_all_over_an_interval_and_near_both_ends() -> None:
    values = np.array(table(REALS, "wide"))
    assert {np.sign(value) for value in values} == {-1.0, 0.0, 1.0}
    assert np.min(np.abs(values[values != 0])) == 1e-12
    assert np.max(np.abs(values)) == 7.3e12
    assert {5.0, 2.5, -2.5, np.pi, -np.pi / 2, 700.0} <= {*values}
    ends = np.array(table(Interval(-1.0, 1.0), "wide"))
    assert np.min(1.0 - ends) < 1e-11
    assert np.min(ends + 1.0) < 1e-11
    assert ends[:3].tolist() == [0.0, 0.5, -0.5]


def test_plain_values_come_first() -> None:
    assert table(REALS, "plain")[:4] == (0.0, 1.0, 2.0, -1.0)
    assert table(POSITIVE, "plain")[:3] == (1.0, 2.0, 0.5)


@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128"])
@pytest.mark.parametrize("shape", [(), (3,), (0,), (2, 1)])
def test_literals_have_their_shape_dtype_and_domain(shape: tuple[int, ...], dtype: str) -> None:
    @settings(max_examples=50, database=None, derandomize=True, deadline=None)
    @given(st.data())
    def run(data: st.DataObject) -> None:
        drawn = literal(data.draw, shape, dtype, Interval(0.0, 1.0))
        array = drawn.array()
        assert array.shape == shape
        assert array.dtype == dtype
        assert Interval(0.0, 1.0).contains(array)
        assert array.tolist() == np.array(drawn.values).reshape(shape).tolist()

    run()


def test_complex_zeros_are_exact_zeros_as_often_as_real_ones() -> None:
    drawn: list[np.ndarray[Any, Any]] = []

    @settings(max_examples=300, database=None, derandomize=True, deadline=None, phases=[Phase.generate])
    @given(st.data())
    def run(data: st.DataObject) -> None:
        drawn.append(literal(data.draw, (2,), "complex128", REALS).array())

    run()
    assert np.mean([np.any(array == 0) for array in drawn]) >= 0.2
    assert np.mean([np.all(array.imag == 0) for array in drawn]) >= 0.1
    assert np.mean([np.all((array.real != 0) & (array.imag != 0)) for array in drawn]) >= 0.15


def test_a_complex_literal_shrinks_to_zeros() -> None:
    shrunk = find(st.composite(lambda draw: literal(draw, (2,), "complex128", REALS))(), lambda _: True)
    assert shrunk.values == (0, 0)


def test_a_smooth_literal_has_nothing_special() -> None:
    values = smooth((2, 3), "float64", REALS)
    assert not is_special(values)
    assert len(set(values.values)) == 6
    assert values != smooth((2, 3), "float64", REALS, offset=1)


def test_zeros_are_replaced_by_ones_where_one_is_allowed() -> None:
    @settings(max_examples=100, database=None, derandomize=True, deadline=None)
    @given(st.data())
    def run(data: st.DataObject) -> None:
        drawn = literal(data.draw, (4,), "float64", REALS)
        replaced = without_zeros(drawn, REALS)
        assert replaced.values == tuple(value if value else 1.0 for value in drawn.values)
        assert 0.0 not in without_zeros(literal(data.draw, (4,), "float64", Interval(-1, 1)), Interval(-1, 1)).values

    run()


def test_the_kinds_of_special_values() -> None:
    plain = smooth((3,), "float64", REALS)
    assert not is_special(plain)
    for special in (0.0, 1.0, 1e-3, 1e5, plain.values[1]):
        assert is_special(type(plain)((3,), (special, *plain.values[1:])))
    assert is_special(smooth((1, 3), "float64", REALS))
    assert math.isfinite(sum(table(REALS, "extreme")))
