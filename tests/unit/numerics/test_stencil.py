from __future__ import annotations

import math

import numpy as np
import pytest

from gradcheck.numerics.sampling import CONFIRM, FIRST


def test_first_stencil_takes_47_evaluations() -> None:
    assert FIRST.ratio == 4.0
    assert FIRST.count == 14
    assert FIRST.offsets.size == 47


@pytest.mark.parametrize("stencil", [FIRST, CONFIRM])
def test_offsets_are_centre_then_row_to_both_sides_then_noise(stencil) -> None:  # type: ignore[no-untyped-def]
    count = stencil.count
    assert stencil.offsets[0] == 0.0
    np.testing.assert_allclose(stencil.offsets[1 : 1 + count], stencil.ratio ** -np.arange(count), rtol=1e-15)
    np.testing.assert_array_equal(stencil.offsets[1 + count : 1 + 2 * count], -stencil.steps)
    noise = stencil.offsets[1 + 2 * count :].reshape(len(stencil.noise_spacings), stencil.noise_points)
    np.testing.assert_allclose(np.diff(noise), np.broadcast_to(np.diff(noise)[:, :1], np.diff(noise).shape))
    np.testing.assert_allclose(noise.sum(axis=1), 0.0, atol=1e-18)


def test_ratios_are_unrelated() -> None:
    exponent = math.log(FIRST.ratio) / math.log(CONFIRM.ratio)
    assert all(abs(exponent * q - round(exponent * q)) > 0.05 for q in range(1, 5))
    shared = np.min(np.abs(np.log(FIRST.steps[1:, None] / CONFIRM.steps[None, 1:])))
    assert shared > 0.01
