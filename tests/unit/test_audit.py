"""`gradcheck.audit`: the known defects of operations in code and in saved models, and what it leaves alone."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import gradcheck
from gradcheck import AuditResult, audit
from gradcheck.audit import audit_saved_model
from gradcheck.defects import known
from gradcheck.defects.audited import DefectHere

ROOT = Path(__file__).parents[2]


def told(result: AuditResult) -> dict[str, list[tuple[str, int, bool | None]]]:
    """The defects of each kernel: name, order, inside."""
    found: dict[str, list[tuple[str, int, bool | None]]] = {}
    for one in result.operations:
        found.setdefault(one.kernel, []).extend((each.defect.name, each.order, each.inside) for each in one.defects)
    return found


@pytest.mark.parametrize(
    ("f", "inputs", "kernel", "name", "inside"),
    [
        (tf.math.cumprod, [0.0, 2.0], "Cumprod", "cumprod-zero-order1", True),
        (tf.math.cumprod, [1.0, 2.0], "Cumprod", "cumprod-zero-order1", False),
        (lambda x: tf.cumsum(tf.math.cumprod(tf.sin(x))), [0.0, 2.0], "Cumprod", "cumprod-zero-order1", True),
        (lambda x: tf.linalg.svd(x)[1], 1e-4 * np.eye(2), "Svd", "singular_vectors-small-order1", True),
        (lambda x: tf.linalg.svd(x)[1], np.diag([1.0, 2.0]), "Svd", "singular_vectors-small-order1", False),
        (tf.linalg.det, [[1.0, 2.0], [2.0, 4.0]], "MatrixDeterminant", "determinant-singular-order1", True),
        (tf.function(tf.math.cumprod), [0.0, 2.0], "Cumprod", "cumprod-zero-order1", True),
        (lambda x: x**0.0, [0.0, 2.0], "Pow", "power-zero-exponent-0-order1", True),
    ],
)
def test_known_defects_are_named_and_whether_these_values_lie_in_their_region(
    f: Any, inputs: Any, kernel: str, name: str, inside: bool
) -> None:
    result = audit(f, np.asarray(inputs))
    assert (name, 1, inside) in told(result)[kernel]
    assert bool(result.inside) is inside
    assert f"{name}: " in str(result)
    assert ("in its region with these values" in str(result)) is inside


def test_a_kernel_that_is_mostly_right_in_a_region_is_perhaps_wrong_as_a_function_of_several_is() -> None:
    dawsn = told(audit(tf.math.special.dawsn, [1e5]))["Dawsn"]
    assert {name: inside for name, order, inside in dawsn if order == 1} == {
        "dawsn-large-order1": None,
        "dawsn-negative-order1": None,
    }


def test_what_a_defect_cannot_concern_is_not_listed() -> None:
    assert told(audit(lambda x: tf.linalg.svd(x, compute_uv=False), np.eye(2))).get("Svd", [])[0][0] == (
        "singular_values-small-order2"
    )
    assert audit(tf.math.squared_difference, [1.0], [2.0]).operations == (), "it is wrong for complex numbers only"
    images, kernel = np.ones((1, 4, 4, 1)), np.ones((2, 2, 1, 1))
    assert audit(lambda x, k: tf.nn.conv2d(x, k, 1, "SAME"), images, kernel).operations == ()
    dilated = audit(lambda x, k: tf.nn.conv2d(x, k, 1, "SAME", dilations=2), images, kernel)
    assert ("conv2d_dilated-order1", 1, True) in told(dilated)["Conv2D"]


def test_derivatives_that_are_none_or_raise_are_listed() -> None:
    def f(x: Any) -> Any:
        hue = tf.raw_ops.AdjustHue(images=x, delta=0.1)
        return tf.quantization.fake_quant_with_min_max_args(x) + hue + tf.floor(x)

    found = audit(f, np.ones((1, 1, 3), "f")).operations
    lost = {one.kernel: [(each.order, each.outcome) for each in one.lost] for one in found}
    assert lost == {"FakeQuantWithMinMaxArgs": [(2, "is None")], "AdjustHue": [(1, "raises")]}


def test_the_lines_of_the_code_are_named() -> None:
    def f(x: Any) -> Any:
        for _ in range(3):
            x = tf.math.cumprod(x)
        return x

    (found,) = audit(f, [0.0, 2.0]).inside
    assert (found.count, found.kernel) == (3, "Cumprod")
    assert found.place is not None
    assert (Path(found.place.file).name, found.place.code) == ("test_audit.py", "x = tf.math.cumprod(x)")


def test_a_derivative_that_is_differentiated_again_is_looked_at() -> None:
    x = tf.Variable([0.0, 2.0, 3.0])

    def step(again: bool) -> Any:
        with tf.GradientTape() as outer:
            with tf.GradientTape() as tape:
                y = tf.reduce_prod(x)
            gradient = tape.gradient(y, x)
            loss = tf.reduce_sum(gradient**2) if again else y
        return outer.gradient(loss, x)

    assert ("reduce_prod-zero-order2", 2, True) in told(audit(lambda: step(False)))["Prod"]
    assert "Cumprod" not in told(audit(lambda: step(False)))
    penalty = told(audit(lambda: step(True)))
    assert ("cumprod-zero-order1", 1, True) in penalty["Cumprod"], "the gradient of a product is one of such"
    assert "Pow" not in penalty, "no number to the power of 2 is in the region of x ** 0"


@pytest.mark.parametrize(
    "entering",
    [np.exp, np.array, lambda x: tf.numpy_function(np.exp, [x], tf.float64), memoryview],
    ids=["np.exp", "np.array", "tf.numpy_function", "memoryview"],
)
def test_numpy_that_reads_tensors_without_a_method_is_not_passed_over(entering: Any) -> None:
    def f(x: Any) -> Any:
        return x * tf.convert_to_tensor(np.asarray(entering(x)))

    def constants(x: Any) -> Any:
        return x * tf.constant([2.0, 3.0], tf.float64) + 1.0

    cut = r"whether NumPy arrays are computed from tensors, which cuts the gradient: \S*test_audit.py:\d+: return x \*"
    assert re.search(cut, " ".join(audit(f, [0.5, 1.0]).notes))
    assert not re.search("NumPy", " ".join(audit(constants, [0.5, 1.0]).notes))


def test_what_is_not_seen_is_said() -> None:
    @tf.custom_gradient
    def own(x: Any) -> Any:
        return tf.sin(x), lambda dy: dy

    def f(x: Any) -> Any:
        return own(x) + x.numpy()

    notes = " ".join(audit(f, np.float32(1.0)).notes)
    assert re.search(
        r"what NumPy or Python computes from the tensors that it reads: \S*test_audit.py:\d+: return own", notes
    )
    assert re.search(r"custom gradients of the code are right: own \(\S*test_audit.py:\d+: return own", notes)
    assert re.search(r"\d+ known defects that no kernel and no call identifies", notes)
    assert "not a proof that the others are right" in str(audit(tf.sin, 1.0))


def test_where_nothing_of_tensorflow_runs_nothing_is_called_right() -> None:
    text = str(audit(lambda x: np.sum(x), [1.0, 2.0]))
    assert "no operation of TensorFlow ran\nlooked at nothing: what NumPy or Python computes" in text
    assert "not a proof" not in text


def test_functions_of_a_graph_are_opened() -> None:
    class Model(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None], tf.float32)])
        def __call__(self, x: Any) -> Any:
            return tf.cond(tf.reduce_sum(x) > 0, lambda: tf.math.cumprod(x), lambda: x)

    concrete = Model().__call__.get_concrete_function()
    call = tf.raw_ops.StatefulPartitionedCall
    result = audit(lambda x: call(args=[x], Tout=[tf.float32], f=concrete)[0], np.array([0.0, 1.0], "f"))
    assert told(result) == {"Cumprod": [("cumprod-zero-order1", 1, None), ("cumprod-zero-order2", 2, None)]}
    (found,) = result.operations
    assert "which StatefulPartitionedCall calls: its values are not known" in found.where
    assert result.inside == ()


@pytest.mark.parametrize("saved", [True, False])
def test_a_custom_gradient_raises_only_where_it_was_not_saved(tmp_path: Path, saved: bool) -> None:
    @tf.custom_gradient
    def own(x: Any) -> Any:
        return tf.sin(x), lambda dy: dy * tf.cos(x)

    class Model(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([2], tf.float32)])
        def __call__(self, x: Any) -> Any:
            return own(x)

    options = tf.saved_model.SaveOptions(experimental_custom_gradients=saved)
    tf.saved_model.save(Model(), str(tmp_path), options=options)
    lost = [
        (one.kernel, each.order, each.outcome) for one in audit_saved_model(tmp_path).operations for each in one.lost
    ]
    assert lost == ([] if saved else [("IdentityN", 1, "raises")])


def test_a_folder_that_is_no_saved_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cannot be read as a saved model"):
        audit_saved_model(tmp_path)


@pytest.mark.parametrize(
    ("f", "kind", "message"),
    [
        (3, TypeError, "f is of type int, a callable was expected: gradcheck.audit"),
        (lambda: 1 / 0, RuntimeError, "f raised ZeroDivisionError: division by zero; it has to run before"),
    ],
)
def test_what_cannot_run_is_refused_by_name(f: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=re.escape(message)):
        audit(f)


def test_a_defect_says_whether_it_bites() -> None:
    defect = next(one for one in known.load(known.installed()) if one.name == "cumprod-zero-order1")
    words = [DefectHere(defect, 1, inside).about for inside in (True, False, None)]
    assert [one.partition("; ")[2] for one in words] == [
        "in its region with these values",
        "not in its region",
        "perhaps in its region; what decides is not known here",
    ]


def test_the_example_of_the_readmes_is_what_happens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (ROOT / "gradcheck" / "defects" / "README.md").read_text(encoding="utf-8")
    code, output = re.findall(r"```(?:python|text)\n(.*?)```", page, re.DOTALL)[:2]
    section = (ROOT / "README.md").read_text(encoding="utf-8").split("\n## Which operations of my model ")[1]
    shown = re.findall(r"```text\n(.*?)```", section, re.DOTALL)[0]
    monkeypatch.chdir(tmp_path)
    Path("loss.py").write_text(code, encoding="utf-8")
    runpy.run_path(str(Path("loss.py").resolve()))
    said = capsys.readouterr().out
    assert said.startswith(output)
    assert shown in said


def test_a_record_of_both_orders_is_told_once_and_by_the_name_of_the_public_function() -> None:
    said = str(audit(lambda x: tf.norm(x), [0.0, 0.0]))
    assert said.count("norm_euclidean-zero-order1") == 1
    assert re.search(r"at order 1, .*\n.* at order 2, .*\n    remedy  instead of tf.norm of x write, as for", said)


def test_it_is_one_of_the_public_names() -> None:
    assert gradcheck.audit is audit
    assert {"audit", "AuditResult", "AuditedOperation", "DefectHere"} <= set(gradcheck.__all__)
