"""The catalogue as a table: families, gradients and names, and what single entries of it rest on."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import pytest
import tensorflow as tf

from gradcheck.defects import known
from gradcheck.defects.region import COMPLEX
from gradcheck.hunt.census import Judgement, census
from gradcheck.hunt.evaluation import single
from gradcheck.operations.catalogue import CATALOGUE, GROUPS, by_name
from gradcheck.operations.control_flow import plus_or_minus_the_sum, times_the_sine
from gradcheck.operations.language import traced
from gradcheck.operations.linalg import dominant, regular, sine
from gradcheck.operations.printed_calls import texts_of
from gradcheck.operations.signal import COMPLEX_FORMS
from gradcheck.operations.spec import OpSpec

SPECS = tuple(CATALOGUE.values())


def test_the_adjoint_of_a_circulant_operator_has_another_dtype() -> None:
    """Why it is no measure of these."""
    spectrum = tf.constant([1.0, 1j], tf.complex128)
    operator = tf.linalg.LinearOperatorCirculant(spectrum, input_output_dtype=tf.complex128)
    assert (operator.inverse().dtype, operator.adjoint().dtype) == (tf.complex128, tf.complex64)


def test_grappler_empties_the_value_of_a_condition_on_the_sum_of_a_number() -> None:
    """Why cond_on_value takes none."""
    value = tf.function(plus_or_minus_the_sum, autograph=False)(tf.constant(0.5, tf.float64))
    assert (value.shape, value.dtype) == ((0,), tf.float32)
    assert float(plus_or_minus_the_sum(tf.constant(0.5, tf.float64))) == 1.0


def test_every_family_of_the_census_has_at_least_three_operations() -> None:
    reachable = Counter(row.family for row in census().values() if row.reachable)
    present = Counter(spec.family for spec in SPECS)
    missing = {family: present[family] for family, count in reachable.items() if present[family] < min(3, count)}
    assert not missing
    assert set(present) <= set(reachable)


def test_declared_gradients_stand_in_the_census() -> None:
    assert {name for spec in SPECS for name in spec.gradients} <= set(census())


def test_the_catalogue_goes_through_all_gradients_that_differences_can_judge() -> None:
    """Operations that compute gradients themselves are reached at second order."""
    comparable = {name for name, row in census().items() if row.judgement is Judgement.DIFFERENCES}
    of_gradients = {name for name in comparable if "Grad" in name or "Backprop" in name}
    declared = {name for spec in SPECS for name in spec.gradients}
    assert comparable - of_gradients <= declared


def test_every_operation_has_both_derivatives_and_what_raises_has_a_record() -> None:
    """Expensive ones are drawn more rarely; a release that adds a second derivative is noticed by its record."""
    assert {spec.orders for spec in SPECS} == {(1, 2)}


def test_at_most_a_quarter_is_looped() -> None:
    assert sum(spec.looped for spec in SPECS) <= len(SPECS) / 4


OF_THEIR_OWN = {
    *("complex_abs", "complex_sign", "complex_matmul"),
    *("complex_cholesky_solve", "complex_lu_solve", "complex_lu_matrix_inverse"),
    *("complex_log_determinant", "complex_inverse", "complex_solve", "complex_triangular_solve"),
}
"""Operations with another function, or another gradient, than those of real numbers that they are named after."""


def written(spec: OpSpec) -> tuple[set[str], tuple[str, ...]]:
    """What an operation is made of, and its gradients."""
    return {*texts_of(spec.source)}, spec.gradients


def strangers(specs: Mapping[str, OpSpec]) -> set[str]:
    """Operations named as complex forms that are none: another function or other gradients than the real ones have."""
    pairs = [(specs[name], specs.get(name.removeprefix(COMPLEX))) for name in specs if name.startswith(COMPLEX)]
    said = [(spec, real) for spec, real in pairs if real is not None]
    return {spec.name for spec, real in said if written(spec) != written(real)}


def test_what_is_named_as_a_complex_form_is_one_or_no_record_takes_it_for_one() -> None:
    assert strangers(CATALOGUE) == OF_THEIR_OWN
    other = replace(CATALOGUE["complex_sin"], source=lambda x: tf.sin(x) * 2)
    assert strangers({**CATALOGUE, "complex_sin": other}) == {*OF_THEIR_OWN, "complex_sin"}
    named = {region.op for defect in known.load() for region in defect.regions}
    assert named.isdisjoint(name.removeprefix(COMPLEX) for name in OF_THEIR_OWN)


def test_no_complex_form_is_of_matrices_that_are_regular_on_the_real_line_alone() -> None:
    """A sine grows along the imaginary axis, where tanh has poles."""
    real = {text for form in (dominant, regular, sine) for text in texts_of(form)}
    assert real & {*texts_of(CATALOGUE["inverse"].source)}
    assert [spec.name for spec in COMPLEX_FORMS if real & {*texts_of(spec.source)}] == []


def test_a_name_given_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="names 'sin' twice"):
        by_name([GROUPS[0], GROUPS[0]])


def test_reading_the_catalogue_loads_no_tensorflow() -> None:
    code = "import sys, gradcheck.operations.catalogue; sys.exit('tensorflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_conjugated_transposition_moves_axes() -> None:
    """Permutations that move no axis are not drawn: Grappler crashes (TensorFlow 2.21)."""
    spec = CATALOGUE["conjugate_transpose"]
    offered = [spec.attributes(*shapes)["perm"] for start in spec.starts for shapes in spec.shapes(start)]
    assert offered
    assert not any(one.offers(tuple(range(count))) for one in offered for count in range(1, 5))


def test_an_operation_that_is_a_function_has_a_traceback() -> None:
    one, two = tf.constant([1.0], tf.float64), tf.constant([1.0, 2.0], tf.float64)
    with pytest.raises(tf.errors.InvalidArgumentError) as raised:
        single(CATALOGUE["tensor_list_stack"])(one, two)
    assert "stacked_list" in [entry.name for entry in raised.traceback]


def test_control_flow_is_traced_once_for_values_of_one_shape() -> None:
    function = traced(times_the_sine)
    for values in ([0.5], [1.5], [2.5]):
        single(CATALOGUE["while_loop"])(tf.constant(values, tf.float64), count=2)
    before = function.experimental_get_tracing_count()
    single(CATALOGUE["while_loop"])(tf.constant([3.5], tf.float64), count=3)
    assert function.experimental_get_tracing_count() == before
