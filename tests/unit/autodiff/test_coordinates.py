"""Real coordinates of real and complex tensors."""

from __future__ import annotations

import numpy as np
import pytest

from gradcheck.autodiff.coordinates import coordinate_count, element_of, from_coordinates, to_coordinates


@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128", "complex64"])
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0, 2)])
def test_there_and_back(dtype: str, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    value = np.asarray(rng.normal(size=shape), dtype)
    if value.dtype.kind == "c":
        value = value + value.dtype.type(1j) * rng.normal(size=shape).astype(value.real.dtype)
    flat = to_coordinates(value)
    assert flat.dtype == np.float64
    assert flat.shape == (coordinate_count(shape, dtype),)
    back = from_coordinates(flat, shape, dtype)
    assert back.dtype == dtype
    np.testing.assert_array_equal(back, value)


def test_a_complex_element_is_its_real_and_its_imaginary_part() -> None:
    np.testing.assert_array_equal(to_coordinates(np.array([1 + 2j, 3 - 4j])), [1, 2, 3, -4])


def test_a_batch_of_points() -> None:
    flat = np.arange(12.0).reshape(3, 4)
    batch = from_coordinates(flat, (2,), "complex128")
    assert batch.shape == (3, 2)
    assert batch[1, 0] == 4 + 5j


def test_the_element_behind_a_coordinate() -> None:
    assert element_of(4, (2, 3), "float64") == ((1, 1), "")
    assert element_of(0, (), "float64") == ((), "")
    assert element_of(4, (2, 3), "complex128") == ((0, 2), " (real part)")
    assert element_of(5, (2, 3), "complex64") == ((0, 2), " (imaginary part)")
