"""Whether a stated resolution is true: errors of its size, planted in one entry, and what becomes of them.

    python tests/benchmarks/planted.py [--cases 1000] [--first 0] [--families NAME ...] [--into FILE]
    python tests/benchmarks/planted.py --only SEED ...

Each case is drawn with its number as the seed: a function of 1 to 10,000 inputs and up to 30 outputs, whose terms,
inputs and outputs may be 12 orders of magnitude apart, or a small Keras model; float64 or float32; with or without rtol
and atol. The right gradient is checked, and then the same with one entry off by 1, 1.2 and 3 times the resolution that
was stated, by a custom gradient or by `gradient=`. Of entries that were compared together the resolution is divided by
the magnitude of the entry's input, and multiplied by how far the entry's output goes at most along the moves that were
made: the unit in which it is stated. With a tolerance one entry is also off by 1.2 times what is tolerated of itself.
For `spot_check` all of the gradient, or that of one variable, is off by the same multiples of what it states.

No planted error may agree: one that does is printed with its seed, which `--only` runs alone, and prints the results.
`--into` keeps the cases in a file, and goes on with it. Where the right gradient does not agree, nothing is planted.
"""

from __future__ import annotations

import argparse
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial, wraps
from importlib import import_module
from typing import Any
from unittest.mock import patch

import detection  # before NumPy: it sets the environment
import numpy as np
import resumed
import tensorflow as tf

from gradcheck import SpotCheck, runtime, spot_check
from gradcheck.check import result_of
from gradcheck.numerics.probing import magnitudes
from gradcheck.options import Options
from gradcheck.problem.opening import open_function
from gradcheck.result import Result, Verdict
from gradcheck.verdict.asked import Asked
from gradcheck.verdict.tables import Comparison

Array = np.ndarray[Any, Any]

TIMES = (1.0, 1.2, 3.0)
"""Planted errors, in units of the stated resolution."""

OWN = 1.2
"""A planted error in units of the entry's own tolerance."""

SIZES = ((1, 6), (7, 24), (25, 300), (301, 10_000))
OUTPUTS = ((1, 1), (1, 1), (1, 1), (2, 4), (5, 24), (25, 30))
NUMBERS = 100_000
"""The most entries of a Jacobian."""

APART = 6.0
"""Scales lie between 10 to this power and its inverse."""

WEIGHTS = 1_000
MANY = 30
"""A variable with this many entries has its share of a move, whatever is drawn."""

Constants = dict[str, Any]
FORMULAS: dict[str, Callable[[Any, Constants], Any]] = {
    "sines": lambda z, c: tf.linalg.matvec(c["mix"], c["sizes"] * tf.sin(z)),
    "bells": lambda z, c: tf.linalg.matvec(c["mix"], c["sizes"] * tf.exp(-z * z)),
    "products": lambda z, c: tf.linalg.matvec(c["mix"], c["sizes"] * z * tf.roll(z, 1, 0)),
    "polynomials": lambda z, c: tf.linalg.matvec(c["mix"], c["sizes"] * (z**3 - 2 * z**2 + z)),
    "quotients": lambda z, c: tf.linalg.matvec(c["mix"], c["sizes"] / (1 + z * z)),
    "logsumexp": lambda z, c: tf.reduce_logsumexp(c["mix"] * z, axis=1),
    "far apart": lambda z, c: 1e6 * tf.linalg.matvec(c["mix"], tf.sin(z)) + 1e-6 * tf.reduce_sum(z**3),
    "matrices": lambda z, c: tf.linalg.matvec(c["mix"], tf.reshape(_inverse(z), [-1])) + tf.linalg.logdet(_gram(z)),
}
MODEL, SPOT = "models", "spot check"
FAMILIES = (*FORMULAS, MODEL, SPOT)


def _square(z: Any) -> Any:
    side = int(np.sqrt(z.shape[0]))
    return tf.reshape(z, (side, side)) / side


def _inverse(z: Any) -> Any:
    square = _square(z)
    return tf.linalg.inv(square + 3 * tf.eye(square.shape[0], dtype=z.dtype))


def _gram(z: Any) -> Any:
    square = _square(z)
    return tf.linalg.matmul(square, square, transpose_b=True) + tf.eye(square.shape[0], dtype=z.dtype)


@dataclass(frozen=True)
class Subject:
    """A function at a point, either of inputs or, without arguments, of variables.

    `exact` returns the function in float64, a callable without arguments, and its sources; `known` caches derivatives.
    """

    function: Callable[..., Any]
    exact: Callable[[], tuple[Any, Sequence[Any]]]
    inputs: tuple[Any, ...] = ()
    variables: tuple[Any, ...] = ()
    known: dict[int, Array] = field(default_factory=dict)

    @property
    def sources(self) -> list[Any]:
        """The tensors or variables that it is differentiated with respect to."""
        return [*self.inputs, *(variable.value for variable in self.variables)]

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """The number type of the derivatives under test."""
        return np.dtype(self.sources[0].dtype.as_numpy_dtype)

    @cached_property
    def sizes(self) -> Array:
        """The magnitudes of all coordinates, (n,)."""
        return magnitudes(np.concatenate([np.ravel(source.numpy()) for source in self.sources]).astype(np.float64))

    @cached_property
    def outputs(self) -> int:
        """The number of outputs."""
        return int(np.prod(self.function(*self.inputs).shape))

    def taken(self) -> list[Any]:
        """TensorFlow's gradient of the sum of the outputs, one tensor per source."""
        return self._row(lambda: self.function(*self.inputs), self.sources, None)

    def row(self, output: int) -> Array:
        """TensorFlow's derivatives of one output, (n,)."""
        return _flat(self._row(lambda: self.function(*self.inputs), self.sources, output))

    def exact_row(self, output: int) -> Array:
        """The derivatives of one output in float64, (n,)."""
        if output not in self.known:
            run, sources = self.exact()
            self.known[output] = _flat(self._row(run, sources, output))
        return self.known[output]

    @staticmethod
    def _row(run: Callable[[], Any], sources: Sequence[Any], output: int | None) -> list[Any]:
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(sources)
            value = tf.reshape(run(), [-1])
            one = tf.reduce_sum(value) if output is None else value[output]
        rows = tape.gradient(one, sources, unconnected_gradients="zero")
        return [tf.convert_to_tensor(row) for row in rows]

    def place(self, coordinate: int) -> tuple[int, int]:
        """The source that holds a coordinate, and its element there."""
        for number, source in enumerate(self.sources):
            count = int(np.prod(source.shape))
            if coordinate < count:
                return number, coordinate
            coordinate -= count
        raise IndexError(coordinate)


def _flat(rows: Sequence[Any]) -> Array:
    return np.concatenate([np.ravel(row.numpy()).astype(np.float64) for row in rows])


def leak(value: Any, source: Any, output: int, element: int, error: Any) -> Any:
    """Zeros like the value, whose derivative at one entry is the error."""
    unit = np.zeros(int(np.prod(source.shape)))
    unit[element] = 1.0

    @tf.custom_gradient
    def nothing(x: Any) -> Any:
        def backward(upstream: Any) -> Any:
            entry = tf.cast(tf.reshape(upstream, [-1])[output], x.dtype) * tf.cast(error, x.dtype)
            return tf.reshape(tf.constant(unit, x.dtype) * entry, x.shape)

        return tf.zeros_like(value), backward

    return nothing(tf.convert_to_tensor(source))


@dataclass(frozen=True)
class Entry:
    """An output, a coordinate, and the error of that derivative, in the number type of the derivative."""

    output: int
    coordinate: int
    error: Any


@dataclass
class Outcome:
    """The right gradient's verdict and resolution, the verdicts on the planted errors, and what agreed, in words."""

    right: Verdict
    resolution: float = float("nan")
    planted: dict[float | str, Verdict] = field(default_factory=dict)
    agreed: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Case:
    """A subject, how its gradient is given, and the tolerance."""

    seed: int
    family: str
    subject: Subject
    way: str
    tolerance: dict[str, float]
    rng: np.random.Generator

    @staticmethod
    def of(seed: int) -> Case:
        """The case with this number."""
        rng, family = np.random.default_rng(seed), FAMILIES[seed % len(FAMILIES)]
        dtype = str(rng.choice(["float64", "float32"]))
        subject = model(rng, dtype) if family in (MODEL, SPOT) else formula(rng, family, dtype)
        ways = ("inside", "inside", "given", "called") if subject.outputs == 1 else ("inside",)
        given = () if family == SPOT else ((), (), (), ("rtol",), ("atol",), ("rtol", "atol"))[int(rng.integers(6))]
        least, most = (-7.0, -2.0) if dtype == "float64" else (-3.0, -1.0)
        tolerance = {name: float(10 ** rng.uniform(least, most)) for name in given}
        if "atol" in tolerance:
            tolerance["atol"] *= float(np.max(np.abs(subject.exact_row(0)))) or 1.0
        return Case(seed, family, subject, str(rng.choice(ways)), tolerance, rng)

    def __str__(self) -> str:
        subject = self.subject
        told = "".join(f", {name}={value:.3g}" for name, value in self.tolerance.items())
        shape = f"{subject.sizes.size} inputs, {subject.outputs} outputs, {subject.dtype.name}"
        return f"--only {self.seed}: {self.family}, {shape}, {self.way}{told}"

    def checked(self, entry: Entry) -> tuple[Result, list[Comparison]]:
        """The result with an error in an entry, and the tables that it sums up."""
        subject = self.subject
        number, element = subject.place(entry.coordinate)

        @wraps(subject.function)  # whose arguments name the sources
        def leaking(*inputs: Any) -> Any:
            value = subject.function(*inputs)
            source = inputs[number] if inputs else subject.variables[number].value
            return value + leak(value, source, entry.output, element, entry.error)

        def wrong(*_: Any) -> list[Any]:
            gradients = subject.taken()
            flat = np.ravel(gradients[number].numpy()).copy()
            flat[element] += entry.error
            gradients[number] = tf.constant(flat.reshape(gradients[number].shape))
            return gradients

        options = Options(asked=Asked(**self.tolerance, skip=()))
        checked = partial(result_of, inputs=subject.inputs, options=options, causes=False)
        checked = partial(checked, variables=list(subject.variables) or None)
        with tables_kept() as tables:
            if self.way == "inside":
                result = checked(leaking, gradient=None)
            else:
                result = checked(subject.function, gradient=wrong if self.way == "called" else wrong())
        return result, tables

    def outcome(self, say: Callable[[str], None]) -> Outcome:
        """The verdicts on the right gradient and on the planted errors."""
        if self.family == SPOT:
            return self._spot(say)
        subject = self.subject
        entries = [self._drawn() for _ in (*TIMES, OWN)]
        right, tables = self.checked(Entry(*entries[0], subject.dtype.type(0.0)))
        say(f"right: {right}")
        found = Outcome(right.verdict, right.resolution[1])
        if right.verdict is not Verdict.AGREE:
            return found
        wanted: list[tuple[float | str, tuple[int, int], float]] = [
            (times, entry, times * self._stated(right, entry) * self._unit(tables, entry))
            for times, entry in zip(TIMES, entries, strict=False)
        ]
        if self.tolerance:
            wanted.append(("own", entries[-1], OWN * self._tolerated(entries[-1])))
        for times, entry, error in wanted:
            if error > 0 and np.isfinite(error):
                self._plant(found, times, entry, error, say)
        return found

    def _drawn(self) -> tuple[int, int]:
        subject = self.subject
        return int(self.rng.integers(subject.outputs)), int(self.rng.integers(subject.sizes.size))

    def _plant(
        self, found: Outcome, times: float | str, entry: tuple[int, int], error: float, say: Callable[[str], None]
    ) -> None:
        planted = self.wrong_by(entry, error)
        result, _ = self.checked(planted)
        found.planted[times] = result.verdict
        exact = self.subject.exact_row(entry[0])[entry[1]]
        words = f"{times} times: error {error:.3g} in d output {entry[0]} / d coordinate {entry[1]}, {exact:.9g}"
        say(f"{words}: {result}")
        if result.verdict is Verdict.AGREE:
            found.agreed.append(f"{words}, stated {found.resolution:.3g}")

    def wrong_by(self, entry: tuple[int, int], error: float) -> Entry:
        """The entry with an error of at least `error`, and as little more as its number type allows."""
        output, coordinate = entry
        exact, taken = (float(row(output)[coordinate]) for row in (self.subject.exact_row, self.subject.row))
        way, kind = self.rng.choice([-1.0, 1.0]), self.subject.dtype.type
        added, least = kind(exact + way * error - taken), np.spacing(kind(abs(taken) + error))
        for _ in range(4):
            if abs(float(kind(taken) + added) - exact) >= error:
                break
            added = kind(added + kind(way) * least)
        return Entry(output, coordinate, added)

    def _stated(self, right: Result, entry: tuple[int, int]) -> float:
        """The resolution stated for the entry's source, or for the whole by a commit that does not state it by
        source."""
        subject = self.subject
        if not hasattr(right, "resolution_of"):
            return right.resolution[1]
        sources = open_function(subject.function, subject.inputs, list(subject.variables) or None).sources
        return float(right.resolution_of(sources[subject.place(entry[1])[0]].name))

    def _unit(self, tables: Sequence[Comparison], entry: tuple[int, int]) -> float:
        """The error of the entry that is 1 in the unit of the finest table that contains it."""
        output, coordinate = entry
        units = []
        for table in tables:
            alone = coordinate in table.coordinates, output in table.outputs
            together = None in table.coordinates, None in table.outputs
            if not all(one or other for one, other in zip(alone, together, strict=True)):
                continue
            row, size = np.abs(self.subject.exact_row(output)), self.subject.sizes[coordinate]
            farthest = float(np.sum(row * self.subject.sizes) if together[0] else np.max(row))
            units.append((farthest if together[1] else 1.0) / (size if together[0] else 1.0))
        return min(units, default=float("nan"))

    def _tolerated(self, entry: tuple[int, int]) -> float:
        own = abs(float(self.subject.exact_row(entry[0])[entry[1]]))
        return self.tolerance.get("atol", 0.0) + self.tolerance.get("rtol", 0.0) * own

    def _spot(self, say: Callable[[str], None]) -> Outcome:
        """The outcome for `spot_check`."""
        subject, variables = self.subject, list(self.subject.variables)
        right = spot_checked(subject.function, variables, subject.taken)
        say(f"right: {right}")
        found = Outcome(right.verdict, right.resolution)
        if right.verdict is not Verdict.AGREE:
            return found
        counts = [int(np.prod(variable.shape)) for variable in variables]
        moved = np.split(np.abs(subject.exact_row(0)) * subject.sizes, np.cumsum(counts)[:-1])
        shares = np.array([part.sum() for part in moved]) / sum(part.sum() for part in moved)
        large = [place for place, count in enumerate(counts) if count >= MANY and shares[place] > 1e-6]
        for times in TIMES:
            place = int(self.rng.choice(large)) if self.rng.random() < 0.5 else None
            off = times * right.resolution / (1.0 if place is None else shares[place]) * self.rng.choice([-1.0, 1.0])

            def wrong(place: int | None = place, off: float = off) -> list[Any]:
                one = [place is None or number == place for number in range(len(counts))]
                return [row * (1 + off) if scaled else row for row, scaled in zip(subject.taken(), one, strict=True)]

            result = spot_checked(subject.function, variables, wrong)
            found.planted[times] = result.verdict
            what = "all of the gradient" if place is None else f"the gradient of variable {place}"
            words = f"{times} times: {what} times {1 + off:.9g}"
            say(f"{words}: {result}")
            if result.verdict is Verdict.AGREE:
                found.agreed.append(f"{words}, stated {right.resolution:.3g}")
        return found


def spot_checked(loss: Callable[[], Any], variables: list[Any], gradient: Callable[[], Any]) -> SpotCheck:
    """A spot check that looks for no causes of its findings, which takes most of the time."""
    with patch.object(import_module("gradcheck.spot_check"), "result_of", partial(result_of, causes=False)):
        return spot_check(loss, variables, gradient)


@contextmanager
def tables_kept() -> Iterator[list[Comparison]]:
    """The tables that the result of the latest check sums up; they show how entries were compared."""
    module = import_module("gradcheck.check")
    summarise, tables = module.summarise, list[Comparison]()

    def noted(order: int, comparisons: Sequence[Comparison], *rest: Any, **named: Any) -> Any:
        tables[:] = comparisons
        return summarise(order, comparisons, *rest, **named)

    with patch.object(module, "summarise", noted):
        yield tables


def formula(rng: np.random.Generator, family: str, dtype: str) -> Subject:
    """A function of this family at a point, its constants and the point in this number type."""
    n = drawn(rng, SIZES)
    n = int(np.sqrt(min(n, 400))) ** 2 if family == "matrices" else n
    m = min(drawn(rng, OUTPUTS), NUMBERS // n)

    def spread(count: int) -> Array:
        exponents = rng.uniform(-APART, APART, count)
        return 10**exponents if rng.random() < 0.3 else np.ones(count)

    def signed(*shape: int) -> Array:
        return rng.uniform(0.3, 1.5, shape) * rng.choice([-1.0, 1.0], shape)

    mix = signed(m, n) * ((rng.random((m, n)) < 0.7) if m > 1 else 1.0)
    if family != "logsumexp":
        mix *= spread(m)[:, None]
    scale = spread(n)
    arrays = {"mix": mix, "sizes": spread(n), "scale": scale}
    constants = {name: array.astype(dtype) for name, array in arrays.items()}
    x = (signed(n) * scale).astype(dtype)

    def function(x: Any) -> Any:
        c = {name: tf.constant(array, x.dtype) for name, array in constants.items()}
        value = FORMULAS[family](x / c["scale"], c)
        return value if m > 1 else value[0]

    wide = tf.constant(x, tf.float64)
    return Subject(function, lambda: (partial(function, wide), [wide]), inputs=(tf.constant(x),))


def model(rng: np.random.Generator, dtype: str) -> Subject:
    """The loss of a small model of weights and a batch drawn anew."""
    name, seed = str(rng.choice(list(detection.MODELS))), int(rng.integers(2**31))
    training = detection.Training.of(name, WEIGHTS, dtype, seed)
    twin = training.in_float64(name, WEIGHTS)
    exact = [variable.value for variable in twin.variables]
    return Subject(training.loss, lambda: (twin.loss, exact), variables=tuple(training.variables))


def drawn(rng: np.random.Generator, ranges: Sequence[tuple[int, int]]) -> int:
    """A number in one of the ranges, large ones as often as small ones."""
    low, high = ranges[int(rng.integers(len(ranges)))]
    return round(float(np.exp(rng.uniform(np.log(low), np.log(high)))))


PLANTS = (*map(str, TIMES), "own")
ALL = "all"
GROUPS: dict[str, Callable[[dict[str, Any]], str]] = {
    "family": lambda row: f"{row['family']:12s} {row['dtype']}",
    "inputs and outputs, tolerance": lambda row: (
        f"{size_of(row['inputs']):15s} {'1' if row['outputs'] == 1 else 'more':5s} {row['tolerance']}"
    ),
}


def size_of(inputs: int) -> str:
    """The range of `SIZES` in which a number of inputs is counted."""
    return next(f"{low:>4,d} to {high:,d}" for low, high in SIZES if inputs <= high)


def table(title: str, rows: Sequence[dict[str, Any]]) -> str:
    """Counts of verdicts: on the right gradients, and on each planted error."""
    counts: dict[str, Counter[tuple[str, str]]] = defaultdict(Counter)
    for row in rows:
        for name in (GROUPS[title](row), ALL):
            counts[name].update([("right", row["right"]), *row["planted"].items()])
    heads = " | ".join(f"{'tolerated' if plant == 'own' else f'{plant} times':>15s}" for plant in PLANTS)
    lines = [f"{title:42s} {'right':>15s} | {heads}   (mismatch, inconclusive, agree)"]
    order = [one.value for one in (Verdict.MISMATCH, Verdict.INCONCLUSIVE, Verdict.AGREE)]
    for name, found in sorted(counts.items(), key=lambda item: (item[0] == ALL, item)):
        cells = ["".join(f"{found[plant, verdict]:5d}" for verdict in order) for plant in ("right", *PLANTS)]
        lines.append(f"{name:42s} " + " | ".join(cells))
    return "\n".join(lines)


def looked_at(seed: int, say: Callable[[str], None]) -> dict[str, Any]:
    """The row of a case, as it is kept in the file."""
    case = Case.of(seed)
    outcome, subject = case.outcome(say), case.subject
    return {
        "family": case.family,
        "dtype": subject.dtype.name,
        "inputs": subject.sizes.size,
        "outputs": subject.outputs,
        "tolerance": " and ".join(case.tolerance),
        "right": outcome.right.value,
        "resolution": outcome.resolution,
        "planted": {str(times): verdict.value for times, verdict in outcome.planted.items()},
        "told": [f"AGREES {case}: {one}" for one in outcome.agreed]
        + [f"FALSE ALARM {case}"] * (outcome.right is Verdict.MISMATCH),
    }


def main() -> None:
    """Plants the errors and prints the tables."""
    runtime.configure()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="the seed of the first case (0)")
    parser.add_argument("--families", nargs="+", choices=FAMILIES, default=FAMILIES, help="cases of these alone")
    parser.add_argument("--only", nargs="+", type=int, help="the cases with these seeds, with all results")
    resumed.add_option(parser)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    seeds = options.only or range(options.first, options.first + options.cases)
    kept, rows = resumed.Rows(options.into, "seed"), []
    for seed in seeds:
        if FAMILIES[seed % len(FAMILIES)] in options.families:
            rows.append(kept.get((seed,), partial(looked_at, seed, print if options.only else lambda _: None)))
            print("".join(f"{line}\n" for line in rows[-1]["told"]), end="", flush=True)
    print("\n\n".join(table(title, rows) for title in GROUPS))
    agreed = sum(list(row["planted"].values()).count(Verdict.AGREE.value) for row in rows)
    alarms = sum(row["right"] == Verdict.MISMATCH.value for row in rows)
    print(f"{len(rows)} cases, {agreed} planted errors agree, {alarms} false alarms")


if __name__ == "__main__":
    main()
