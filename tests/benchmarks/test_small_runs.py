"""Each benchmark runs: in small, as a command, until it has printed the header and the figures of its table."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from gradcheck.defects import known
from gradcheck.graph import Graph, Input, Node
from gradcheck.hunt.known_graphs import example_of

FOLDER = Path(__file__).parent
UNIT = FOLDER.parent / "unit"


@dataclass(frozen=True)
class SmallRun:
    """A command, expressions for lines that it prints in this order, what runs before it, and packages it needs."""

    command: str
    shown: tuple[str, ...]
    before: str = ""
    needs: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.command


SMALL_RUNS = (
    SmallRun(
        "accuracy.py --points 1 --no-peers",
        (r"function +points +unknown +outside .*", r"sin\(x\) +1 +\d+\.\d% +\d+ +\d+ +\d\.\de-\d+ +\d+ +\d\.\de-\d+"),
    ),
    SmallRun(
        "accuracy.py --points 1",
        (r" +gradcheck +\| +numdifftools +\| +scipy", r"sin\(x\)( +\de-\d+ +\de-\d+ +\d+ +\d+( \||$)){3}"),
        needs=("numdifftools", "scipy"),
    ),
    SmallRun(
        "constants.py numerics.tableau.SUMMATION numerics.probing.PRODUCTS",
        (
            r"numerics\.probing\.PRODUCTS +PRODUCTS / 8\.0 +tests/unit/numerics/test_probing\.py::.*",
            r"numerics\.tableau\.SUMMATION +SUMMATION / 8\.0 +tests/unit/numerics/test_tableau\.py::.*",
            r"2 constants, 0 not noticed",
        ),
    ),
    SmallRun(
        "cost.py --graphs 3 --elements 12",
        (
            r"\d drawn graphs of 2 to 8 nodes, .*",
            r"\(\d more are left out, as their derivative raises\):",
            r" +differences and verdict +with generation +the whole check",
            r" +order 1 alone +\d+\.\d\d +\d+\.\d\d +\d+\.\d\d",
            r"tf\.test\.compute_gradient at 12 elements: \d+\.\d times .*",
        ),
    ),
    SmallRun(
        "decisions.py compare rows.jsonl",
        (r"2\d compared, 0 differ",),
        before="decisions.py record rows.jsonl --graphs 2 --seeds 1 --only 'cosh(x)' bessel_i0-zero ELU 'stopped,'",
    ),
    SmallRun(
        "detection.py --repetitions 1 --models",
        (r" +Jacobian +caught +located +s a check", r" +100 x 100 +1 of 1 +1 of 1 +\d+\.\d\d"),
    ),
    SmallRun(
        "detection.py --repetitions 0 --models MLP --weights 1000 --dtypes float64 --into new.jsonl --beside new.jsonl",
        (
            r"model +weights +dtype +order \| right .*",
            r"MLP +1,035 float64 +1 \| agree +\d\.\de-\d+ .* \| +24 +24 +0 +0 \| 1\.00 and 1\.00 times .*",
            r"24 wrong gradients: 0 agree, 0 inconclusive, 24 mismatch",
        ),
        before="detection.py --repetitions 0 --models MLP --weights 1000 --dtypes float64 --into new.jsonl",
    ),
    SmallRun(
        "examples.py time graphs.jsonl",
        (
            r"the first time: \d examples in \d+\.\d s, \d+\.\d a second; median \d\.\d{3} s a graph",
            r"again: \d examples in \d+\.\d s, \d+\.\d a second; .*",
            r"verdicts: [0-9a-f]{12}",
        ),
        before="examples.py record graphs.jsonl --operations 2",
    ),
    SmallRun(
        "diagnosis.py --broken 3 --right 3",
        (r"cause +drawn +first +share +line", r"all +3 +3 100\.0%", r"right programs: 3 drawn, 0 false alarms"),
    ),
    SmallRun(
        "false_alarms.py --graphs 3 --seeds 1",
        (r"seed 1: [1-3] graphs .*", r" +order 1: .*\d; .*\d%", r" +order 2: .*\d; .*\d%"),
    ),
    SmallRun(
        "models.py Dense",
        (r" +gradient +trace \| order 1: .*", r"Dense +\d+\.\d\d ms +\d+ ms \| +\d+\.\d\d s .*agree .* +\d+\.\d"),
    ),
    SmallRun(
        "monitor.py MLP --steps 3 --checks 2",
        (r" +a step +first check +later check .*", r"MLP +\d+\.\d\d ms +\d+\.\d\d s +\d+\.\d ms .*\d% +agree"),
    ),
    SmallRun(
        "mutation.py --changes 1 --examples 1 --only _TanhGrad",
        (r"1 of \d+ changes", r"(noticed|not noticed|no effect|equivalent) +1 .*"),
    ),
    SmallRun("nonsmooth.py relu --order 1", (r"distance +1e-01 .*", r"1 relu +=\de-\d+ .*")),
    SmallRun("nonsmooth.py relu --vectors", (r"distance +1e-01 .*", r"relu +n= +4 near= +1 order 1 +=4/4 \de-\d+ .*")),
    SmallRun(
        "own_mutation.py reach --changes 2 --only numerics/tableau.py --workers 1",
        (r"seed 1: 2 of \d+ changes", r"(noticed|not noticed|never reached) +gradcheck/numerics/tableau.py:\d+ .*"),
        before="-m pytest -p own_mutation --reach-into=reach --junitxml=reach/tests.xml "
        + shlex.quote(str(UNIT / "numerics" / "test_tableau.py")),
    ),
    SmallRun(
        "planted.py --cases 4",
        (
            r"family +right \| +1\.0 times \| +1\.2 times \| +3\.0 times \| +tolerated .*",
            r"all +0 +0 +4( \| +\d+ +\d+ +0){4}",
            r"inputs and outputs, tolerance +right .*",
            r"4 cases, 0 planted errors agree, 0 false alarms",
        ),
    ),
    # Cases whose errors once agreed: of small outputs, small entries, cancelled terms, along one direction only, by the
    # rounding of float32, as the detailed check allowed more than the screening states, and beyond a tolerance.
    SmallRun(
        "planted.py --only 57 66 84 97 117 120 189 243 2162 2323 2513",
        (r"1\.0 times: error .*", r"11 cases, 0 planted errors agree, 0 false alarms"),
    ),
    SmallRun(
        "rediscovery.py --only crop_and_resize-order2 --seeds 1 --examples 5",
        (r"record +found *examples *seconds .*", r"crop_and_resize-order2 +1/1 +\d+ +\d+\.\d +\w+.*"),
    ),
    SmallRun(
        "steps.py SGD --dtype float64 --eagerly",
        (r" +\| +step \| explain: .*", r"SGD, float64, eager +\| +\d+\.\d\d ms \|.* agree .*\| .* agree .*\d"),
    ),
    SmallRun(
        "suite.py run.xml run.xml",
        (r" +old +new", r" +1\.000 +1 +\d+\.\d +1 +\d+\.\d +whole run", r".* 1 .* 1 .*one_test::test_nothing"),
        before="-m pytest -p suite one_test.py --junitxml=run.xml",
    ),
    SmallRun(
        "tape_programs.py --programs 3 --seeds 1",
        (r"seed 1: 3 programs, traced .*, unexplained 0", r" +3 programs with derive"),
    ),
    SmallRun(
        "tightness.py --graphs 1 --attempts 5 --only bessel_i0-zero",
        (r"region +wrong +agree +inconclusive", r"bessel_i0-zero\S* \w+ order 2 +[1-4] +0 +0"),
    ),
    SmallRun(
        "tightness.py --graphs 1 --attempts 5 --only bessel_i0-zero --outside",
        (r"region +wrong +agree +inconclusive", r"bessel_i0-zero\S* \w+ order 2 +0 +1 +0"),
    ),
)


def output_of(command: str, folder: Path) -> str:
    """The output of a benchmark or a module, run in a folder; it has to end with 0."""
    program, *options = shlex.split(command)
    python = [sys.executable, program if program == "-m" else str(FOLDER / program)]
    env = {**os.environ, "PYTHONPATH": str(FOLDER)}
    done = subprocess.run([*python, *options], cwd=folder, env=env, capture_output=True, text=True)
    assert done.returncode == 0, f"{command} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.mark.exhaustive
@pytest.mark.parametrize("run", SMALL_RUNS, ids=str)
def test_it_ends_well_and_prints_its_table(run: SmallRun, tmp_path: Path) -> None:
    missing = [package for package in run.needs if find_spec(package) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} not installed (pip install 'gradcheck[benchmark]')")
    if run.before:
        (tmp_path / "one_test.py").write_text("def test_nothing(): pass\n")
        output_of(run.before, tmp_path)
    printed = output_of(run.command, tmp_path)
    lines = iter(printed.splitlines())
    absent = [line for line in run.shown if not any(re.fullmatch(line, one.rstrip()) for one in lines)]
    assert not absent, f"{run} printed no line {absent[0]!r} in its place:\n{printed}"


def test_each_command_has_a_small_run() -> None:
    commands = {path.name for path in FOLDER.glob("*.py") if "\nif __name__ ==" in path.read_text(encoding="utf-8")}
    assert commands == {str(run).split()[0] for run in SMALL_RUNS}


@pytest.mark.exhaustive
def test_a_graph_whose_derivative_raises_has_no_cost(instrument: Callable[[str], Any]) -> None:
    (defect,) = (one for one in known.load() if one.name == "tanh-indexed-slices-order2")
    smooth = Graph((Input((2,), (0.5, 1.5)),), (Node.of("sin", 0), Node.of("exp", 1)))
    assert len(instrument("cost").costs_of_each([example_of(defect).graph, smooth])) == 1


@pytest.mark.exhaustive
def test_a_gradient_is_as_wrong_inside_of_the_model_as_when_it_is_given(instrument: Callable[[str], Any]) -> None:
    training = instrument("detection").Training.of("attention", 1_000, "float64")
    held = [variable.value for variable in training.variables]
    for place in range(len(held)):
        with tf.GradientTape() as tape:
            loss = training.loss_with(place, 1.5)
        taken, given = tape.gradient(loss, held), training.scaled_gradient(place, 1.5)
        for one, other in zip(taken, given, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-15)


@pytest.mark.exhaustive
@pytest.mark.parametrize("factor", [0.0, 1.1])
def test_what_is_wrong_is_searched_for_beyond_the_rounding_of_the_others(
    instrument: Callable[[str], Any], factor: float
) -> None:
    """The values' kernel of an attention layer in float32, whose other gradients round by more than differences do."""
    training = instrument("detection").Training.of("attention", 1_000, "float32")
    (place,) = [number for number, one in enumerate(training.variables) if one.path.endswith("value/kernel")]
    assert training.verdict(place, factor, "given") == "mismatch"


@pytest.mark.exhaustive
def test_a_planted_error_is_in_the_entry_that_was_drawn_and_no_smaller(instrument: Callable[[str], Any]) -> None:
    planted = instrument("planted")
    subject, place, error = planted.Case.of(0).subject, 7, 1e-9  # a derivative of 6e-4 in float32
    entry = planted.Case.of(0).wrong_by((0, place), error)
    (x,) = subject.inputs
    with tf.GradientTape() as tape:
        tape.watch(x)
        value = subject.function(x)
        value += planted.leak(value, x, 0, place, entry.error)
    row = tape.gradient(value, x).numpy().astype(np.float64)
    assert error <= abs(row[place] - subject.exact_row(0)[place]) < 1.2 * error
    np.testing.assert_array_equal(np.delete(row, place), np.delete(subject.row(0), place))
