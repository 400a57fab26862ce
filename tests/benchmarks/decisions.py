"""The decisions of one commit beside those of another: verdicts, kinds, reasons, resolutions and texts.

    python tests/benchmarks/decisions.py record FILE --graphs 20000 --seeds 1 2 3 4 5 [--only TEXT ...]
    python tests/benchmarks/decisions.py compare FILE [--decisions] [--only TEXT ...] [--every N]

`record` checks random graphs outside of the known regions at both orders, every tenth also as a function that is given
to `gradcheck.check`; functions with known derivatives; the known defects; Keras layers in float32; and the texts of
`explain` and `assert_step` for the steps of the tests and for steps with each optimizer, eager and traced. It writes
one JSON line for each. `compare`, on another commit or release, decides again on what stands in the file, and prints
every difference. Resolutions, and numbers in texts, may differ by rounding, 1e-6 of themselves or one in the last digit
that is printed; with --decisions they are not compared.
"""

from __future__ import annotations

import argparse
import difflib
import json
import math
import re
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import models
import steps
from drawing import draw_each
from false_alarms import both
from functions import CANCELLING, SMOOTH
from gradcheck.strategies.graphs import graphs

import gradcheck
from gradcheck.graph import Graph

FIELDS = ("verdict", "kinds", "elements", "reasons", "compared", "inconclusive")
SIZES = ("resolution", "relative")
NEAR = 1e-6

NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e[-+]?\d+)?(?![\w])")
PLACE = re.compile(r"(?<=\.py):\d+|^ *File \".*\n", re.MULTILINE)
"""The number of a line, and a frame of a stack: they differ between commits, and between checkouts."""
LOOKS: dict[str, Callable[..., Any]] = {
    "explain": gradcheck.explain,
    "assert_step": partial(gradcheck.assert_step, inconclusive="ignore"),
}


def decided(result: gradcheck.Result) -> dict[str, Any]:
    """What was decided, order by order."""
    return {
        str(number): {
            "verdict": str(order.verdict),
            "kinds": [str(finding.kind) for finding in order.findings],
            "elements": [finding.element for finding in order.findings],
            "reasons": [str(reason) for reason in order.reasons],
            "resolution": order.resolution,
            "relative": order.relative_resolution,
            "compared": order.compared,
            "inconclusive": order.inconclusive,
        }
        for number, order in result.orders.items()
    }


def differences(before: dict[str, Any], after: dict[str, Any], sizes: Sequence[str] = SIZES) -> dict[str, list[str]]:
    """How two decisions on the same thing differ, in words for each field."""
    found: dict[str, list[str]] = {}
    for order, old in before.items():
        new = after[order]
        changed = [name for name in FIELDS if old[name] != new[name]]
        changed += [name for name in sizes if not _near(old[name], new[name])]
        for name in changed:
            found.setdefault(name, []).append(f"order {order}, {name}: {old[name]} before, {new[name]} now")
    return found


def text_differences(before: str, after: str, sizes: Sequence[str] = SIZES) -> dict[str, list[str]]:
    """How two texts differ, line by line, their numbers apart from their words."""
    words, numbers = (NUMBER.sub("#", before), NUMBER.sub("#", after)), (NUMBER.findall(before), NUMBER.findall(after))
    if words[0] != words[1]:
        lines = difflib.unified_diff(before.splitlines(), after.splitlines(), "before", "now", lineterm="", n=0)
        return {"text": ["\n  ".join(lines)]}
    far = [f"{old} before, {new} now" for old, new in zip(*numbers, strict=True) if not _alike(old, new)]
    return {"numbers": far} if far and sizes else {}


def _alike(one: str, other: str) -> bool:
    """Whether two printed numbers differ by rounding: by 1e-6 of themselves, or by one in the last digit."""
    digits = min(len(re.sub(r"\D", "", text.partition("e")[0]).lstrip("0")) for text in (one, other))
    largest = max(abs(float(one)), abs(float(other)))
    return _near(float(one), float(other)) or abs(float(one) - float(other)) <= 1.001 * largest * 10.0 ** (1 - digits)


def _near(one: float, other: float) -> bool:
    if math.isnan(one) or math.isnan(other):
        return math.isnan(one) and math.isnan(other)
    return one == other or abs(one - other) <= NEAR * max(abs(one), abs(other))


def drawn(count: int, seeds: list[int]) -> Iterator[dict[str, Any]]:
    """Random graphs as documents, the same number for each seed."""
    from gradcheck.hunt.graph_json import to_json

    for seed in seeds if count else ():
        found: list[Graph] = []
        draw_each(graphs(order=2, known=both), seed, count // len(seeds), found.append)
        yield from ({"what": "graph", "graph": to_json(graph)} for graph in found)


def corpus(only: Sequence[str] = ()) -> Iterator[dict[str, Any]]:
    """Functions with known derivatives at random points, and the known defects; `only` has texts of their names."""
    import numpy as np

    from gradcheck.defects import known

    rng = np.random.default_rng(7)
    rows: list[dict[str, Any]] = []
    for function in SMOOTH + CANCELLING:
        rows += ({"what": "function", "name": function.name, "x": float(x)} for x in function.draw(rng, 12))
    rows += ({"what": "defect", "name": defect.name} for defect in known.load())
    rows += ({"what": "layer", "name": name} for name in models.LAYERS)
    rows += ({"what": "step", "name": f"{name}, {look}"} for name in training_steps() for look in LOOKS)
    return (row for row in rows if not only or any(text in row["name"] for text in only))


def decide(row: dict[str, Any]) -> dict[str, Any]:
    """The decisions on a row: of the hunt on a graph and of `check` on it as a black box, of `check` on a function."""
    import tensorflow as tf

    from gradcheck.defects import known
    from gradcheck.hunt import trial
    from gradcheck.hunt.evaluation import forward
    from gradcheck.hunt.graph_json import from_json
    from gradcheck.hunt.known_graphs import example_of

    if row["what"] == "step":
        return {"text": text_of(*row["name"].rsplit(", ", 1))}
    if row["what"] == "layer":
        return decided(models.checked(models.LAYERS[row["name"]], "float32"))
    if row["what"] == "function":
        (function,) = (one for one in SMOOTH + CANCELLING if one.name == row["name"])
        return decided(gradcheck.check(lambda x: function.formula(Tensors(), x), row["x"], order=2))
    if row["what"] == "defect":
        (defect,) = (one for one in known.load() if one.name == row["name"])
        example = example_of(defect)
        return decided(trial.run(example.graph, (example.order,), mode=example.taken).result)
    graph = from_json(row["graph"])
    if not row.get("black_box"):
        return decided(trial.run(graph).result)
    inputs = [tf.constant(literal.array()) for literal in graph.inputs]
    return decided(gradcheck.check(lambda *given: forward(graph, list(given))[-1], *inputs, order=2))


@cache
def training_steps() -> dict[str, Callable[[], Callable[[], Any]]]:
    """What makes each step: those of the tests, and one with each optimizer in two number types; eager and traced."""
    sys.path.append(str(Path(__file__).resolve().parents[2]))
    from tests.explanation import test_unobserved as programs

    def traced(make: Callable[[], Any]) -> Callable[[], Any]:
        return lambda: tf_function(make())

    eager: dict[str, Callable[[], Any]] = dict(programs.STEPS)
    for name, make in steps.optimizers().items():
        for dtype in ("float64", "float32"):
            eager[f"{name} of {dtype}"] = partial(steps.training_step, make, dtype)
    found = {f"{name}, eager": make for name, make in eager.items()}
    left_out = programs.DRAWING | programs.ENDLESS
    return {**found, **{f"{name}, traced": traced(make) for name, make in eager.items() if name not in left_out}}


def tf_function(step: Callable[[], Any]) -> Any:
    """The step as a tf.function."""
    import tensorflow as tf

    return tf.function(step)


def text_of(name: str, look: str) -> str:
    """The text that a look at a step prints, or that it raises, without the numbers of lines and without frames."""
    import keras

    keras.utils.clear_session()  # layers are numbered anew
    keras.config.set_floatx("float32")
    keras.config.set_dtype_policy("float32")
    keras.utils.set_random_seed(4)
    try:
        text = str(LOOKS[look](training_steps()[name]()))
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
    return PLACE.sub("", text)


class Tensors:
    """TensorFlow's functions by the names in which the formulas of `functions` are written."""

    def __getattr__(self, name: str) -> Any:
        import tensorflow as tf

        if name == "cbrt":
            return lambda x: tf.sign(x) * tf.abs(x) ** (1 / 3)
        names = {"arctan": "atan", "arcsin": "asin", "arctanh": "atanh"}
        return getattr(tf.math, names.get(name, name))


def record(path: Path, count: int, seeds: list[int], only: Sequence[str] = ()) -> None:
    """Writes the decisions of this commit to a file."""
    tally: Counter[str] = Counter()
    with path.open("w", encoding="utf-8") as file:
        for place, row in enumerate((*corpus(only), *drawn(count, seeds))):
            for one in (row, {**row, "black_box": True}) if row["what"] == "graph" and place % 10 == 0 else (row,):
                file.write(json.dumps({**one, "decided": decide(one)}) + "\n")
                tally["black box" if one.get("black_box") else one["what"]] += 1
    print(", ".join(f"{number} x {what}" for what, number in tally.items()))


def compare(path: Path, sizes: Sequence[str], only: Sequence[str] = (), every: int = 1) -> int:
    """Prints how the decisions of this commit differ from those in a file; how many rows do."""
    from gradcheck.defects import known

    rows = gone = changed = 0
    fields: Counter[str] = Counter()
    records = {defect.name for defect in known.load()}
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            row = json.loads(line)
            if row["what"] == "defect" and row["name"] not in records:
                gone += 1
                continue
            name = row.get("name", row["what"])
            if number % every or (only and not any(text in name for text in only)):
                continue
            before, now = row["decided"], decide(row)
            found = (
                text_differences(before["text"], now["text"], sizes)
                if "text" in before
                else differences(before, now, sizes)
            )
            rows, changed = rows + 1, changed + bool(found)
            fields.update(list(found))
            if found:
                told = "; ".join(text for texts in found.values() for text in texts)
                print(f"line {number}, {name}: {told}", flush=True)
    where = ", ".join(f"{count} in {name}" for name, count in fields.items())
    print(f"{rows} compared, {changed} differ" + f": {where}" * bool(where))
    if gone:
        print(f"{gone} records there are no more")
    return changed


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("record", "compare"))
    parser.add_argument("file", type=Path)
    parser.add_argument("--graphs", type=int, default=20_000, help="graphs in all, shared by the seeds")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    parser.add_argument(
        "--only", nargs="*", default=(), help="what has one of these in its name; all else but graphs is left out"
    )
    parser.add_argument("--every", type=int, default=1, help="compare every so many rows alone")
    parser.add_argument("--decisions", action="store_true", help="compare no resolutions")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.what == "compare":
        sizes = () if options.decisions else SIZES
        return int(compare(options.file, sizes, options.only, options.every) > 0)
    record(options.file, options.graphs, options.seeds, options.only)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
