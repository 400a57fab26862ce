"""Random changes of TensorFlow's gradient functions, one place each, and which of them the hunt notices.

    python tests/benchmarks/mutation.py [--changes 100 | --all] [--seed 1] [--examples 10] [--shard 1/1] [--into FILE]

A change is put into the gradient registry, and the tests of every operation of the catalogue that goes through the
function are run, plainly and in modes, with --examples each: an operator, a sign, a constant, a flag, a
comparison, a dropped term, two arguments that swap places, a result scaled by 1.001. Of each change it tells: noticed
(by which operation, order and kind), never run, run without an effect on any drawn value, with an effect that was not
noticed, with the verdicts that were given, or equivalent, with the proof, by its form or from the table beside this
file. Where TensorFlow raises, that is an effect. With --into, lines of JSON are added as they come, and what is there
already is not run again. A change that crashes TensorFlow ends the run; one that has ended two is noticed. With
--least, it fails where a smaller share of all that are not equivalent is noticed.
"""

from __future__ import annotations

import argparse
import ast
import copy
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import drawing
import numpy as np
import resumed
import tensorflow as tf
from gradcheck.strategies.graphs import graphs
from hypothesis.errors import HypothesisException
from tensorflow.python.eager import context, forwardprop
from tensorflow.python.framework import ops

from gradcheck.autodiff.mode import LIGHT, PLAIN, Mode
from gradcheck.graph import Graph
from gradcheck.hunt import trial
from gradcheck.hunt.blame import finding_of, node_trials
from gradcheck.hunt.census import Judgement, census, gradient_functions
from gradcheck.hunt.configuration import Shard
from gradcheck.hunt.gradient_code import FunctionCode, dead_lines, registered_code, syntax_of
from gradcheck.hunt.known_graphs import left_out_in, match, ways
from gradcheck.operations.catalogue import CATALOGUE
from gradcheck.operations.language import traced_anew
from gradcheck.result import Verdict

OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.Pow: ast.Mult,
    ast.FloorDiv: ast.Mult,
}
COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
SCALE = 1.001

TABLE = Path(__file__).with_name("equivalent.tsv")

SHARE = 3
"""Number of graphs in the plain mode for each one in another mode."""


COMMUTATIVE = frozenset(("add", "mul", "multiply", "minimum", "maximum", "equal", "not_equal"))
HINTS = {
    "grad_a": "a hint for profilers",
    "grad_b": "a hint for profilers",
    "colocate_with_first_write_call": "where an array's writes are placed, of one that is asked for its gradient alone",
}
"""Keyword arguments on which no value depends, and what they are."""


@dataclass(frozen=True)
class Place:
    """An expression, its replacement, and `proof`: why that changes no derivative, if its form shows it."""

    line: int
    text: str
    before: str
    after: str
    proof: str


@dataclass(frozen=True)
class Change:
    """A change at one of a function's places; `operations` are those of the registry that have the function."""

    code: FunctionCode
    operations: tuple[str, ...]
    number: int
    place: Place

    @property
    def line(self) -> int:
        return self.place.line

    @property
    def text(self) -> str:
        return self.place.text

    @property
    def name(self) -> str:
        return f"{self.code.full_name}#{self.number}"

    @property
    def proof(self) -> str:
        """Why it is equivalent; empty where that is not known."""
        return self.place.proof or equivalent().get(self.key, "")

    @property
    def key(self) -> tuple[str, ...]:
        """Its key in the table of equivalent changes."""
        return self.code.full_name, self.code.text(self.line), self.place.before, self.place.after


@cache
def equivalent() -> dict[tuple[str, ...], str]:
    """The proofs of the table, by function, line, expression and replacement."""
    rows = (line.split("\t") for line in TABLE.read_text().splitlines()[1:])
    return {tuple(row[:4]): row[4] for row in rows}


def variants(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """The possible replacements of an expression, with their descriptions."""
    if isinstance(node, ast.BinOp):
        if type(node.op) in OPERATORS:
            yield "another operator", ast.BinOp(node.left, OPERATORS[type(node.op)](), node.right)
        yield "the right operand dropped", node.left
        yield "the left operand dropped", node.right
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.Not)):
        yield "a sign or a not dropped", node.operand
    elif isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in COMPARISONS:
        yield "another comparison", ast.Compare(node.left, [COMPARISONS[type(node.ops[0])]()], node.comparators)
    elif isinstance(node, ast.BoolOp):
        yield "and for or", ast.BoolOp(ast.And() if isinstance(node.op, ast.Or) else ast.Or(), node.values)
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield "a flag turned", ast.Constant(not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        yield "a constant one larger", ast.Constant(node.value + 1)
    elif isinstance(node, ast.Call) and len(node.args) > 1 and not any(isinstance(a, ast.Starred) for a in node.args):
        swapped = [node.args[1], node.args[0], *node.args[2:]]
        yield "two arguments swapped", ast.Call(node.func, swapped, node.keywords)


class Places(ast.NodeTransformer):
    """Visits the places of a function in their order; replaces that with the number `wanted`, if there is one."""

    def __init__(self, wanted: int | None = None) -> None:
        self.wanted, self.found, self._inside = wanted, list[Place](), list[str]()

    def visit_Raise(self, node: ast.Raise) -> Any:
        return self._visited_inside(node, "an exception is raised with any text")

    def visit_keyword(self, node: ast.keyword) -> Any:
        return self._visited_inside(node, HINTS[node.arg]) if node.arg in HINTS else self.generic_visit(node)

    def visit_Return(self, node: ast.Return) -> Any:
        node = self.generic_visit(node)  # type: ignore[assignment]
        if node.value is not None:
            scaled = ast.Call(ast.Name("scaled_by_the_change", ast.Load()), [node.value], [])
            node.value = self._offered(node.value, node.value, [("the result scaled", scaled)], node.lineno)
        return node

    def generic_visit(self, node: ast.AST) -> Any:
        options = list(variants(node))
        before = copy.deepcopy(node) if options else node
        visited = super().generic_visit(node)
        return self._offered(before, visited, options, node.lineno) if options else visited  # type: ignore[attr-defined]

    def _visited_inside(self, node: ast.AST, proof: str) -> Any:
        self._inside.append(proof)
        visited = self.generic_visit(node)
        self._inside.pop()
        return visited

    def _offered(self, before: ast.AST, node: Any, options: list[tuple[str, Any]], line: int) -> Any:
        for text, made in options:
            if len(self.found) == self.wanted:
                empty = ast.arguments([], [], None, [], [], None, [])
                node = ast.Call(ast.Name("chosen_by_the_change", ast.Load()), [ast.Lambda(empty, made)], [])
            proof = (self._inside or [by_form(before, text)])[0]
            self.found.append(Place(line, text, ast.unparse(before), ast.unparse(made), proof))
        return node


def by_form(before: ast.AST, text: str) -> str:
    """Why a change is equivalent whatever the values are; empty where the form of the expression does not say so."""
    if text == "two arguments swapped" and isinstance(before, ast.Call) and isinstance(before.func, ast.Attribute):
        typed = not any(isinstance(one, ast.Constant) for one in before.args)  # which takes the other's type, as second
        return "the function is commutative" if before.func.attr in COMMUTATIVE and typed else ""
    if text == "another operator" and isinstance(before, ast.BinOp) and isinstance(before.op, ast.Mult):
        return "to divide by -1 is to multiply by it" if ast.unparse(before.right) == "-1" else ""
    if text == "the result scaled":
        results = before.elts if isinstance(before, (ast.Tuple, ast.List)) else [before]
        none = all(isinstance(one, ast.Constant) and one.value is None for one in results)
        return "there is no result" if none else ""
    return ""


def function_of(code: FunctionCode) -> Any:
    """A copy of a function's syntax, without its decorators and its docstring."""
    node = copy.deepcopy(syntax_of(code))
    node.decorator_list = []
    if isinstance(node.body[0], ast.Expr) and isinstance(node.body[0].value, ast.Constant):
        del node.body[0]
    return node


def changes() -> list[Change]:
    """All changes of functions that differences can check and that an operation of the catalogue goes through.

    Dead lines are left out: changes there are equivalent.
    """
    claimed = {name for spec in CATALOGUE.values() for name in spec.gradients}
    functions = {
        name: function
        for name, function in gradient_functions().items()
        if name in claimed and census()[name].judgement is Judgement.DIFFERENCES and not function.__code__.co_freevars
    }
    owners: dict[FunctionCode, list[str]] = {}
    for name, code in registered_code(functions).items():
        owners.setdefault(code, []).append(name)
    found = []
    for code in sorted(owners):
        places, syntax = Places(), function_of(code)
        dead = dead_lines(syntax)
        places.visit(syntax)
        found += [Change(code, tuple(owners[code]), i, at) for i, at in enumerate(places.found) if at.line not in dead]
    return found


class Effect:
    """The effect of a change while the tests ran: how often its place was reached, and if an eager gradient
    differed."""

    def __init__(self) -> None:
        self.runs, self.differed = 0, False

    def chosen(self, value: Callable[[], Any]) -> Any:
        """The value of the changed expression."""
        self.runs += 1
        return value()

    def watched(self, right: Callable[..., Any], changed: Callable[..., Any]) -> Callable[..., Any]:
        """The changed function, whose results are compared with those of the right one until one differs."""

        def gradient(op: Any, *cotangents: Any) -> Any:
            try:
                after = changed(op, *cotangents)
            except Exception:
                self.differed = self.differed or not raises(right, op, *cotangents)
                raise
            if tf.executing_eagerly():
                self.differed = self.differed or not same(used(op, right(op, *cotangents)), used(op, after))
            return after

        return gradient


def raises(right: Callable[..., Any], *given: Any) -> bool:
    """Whether the right function raises an exception as well."""
    try:
        right(*given)
    except Exception:
        return True
    return False


def used(op: Any, results: Any) -> list[Any]:
    """The results for the inputs that are differentiated; those for the others are dropped."""
    parts = results if isinstance(results, (list, tuple)) else [results]
    skipped = getattr(op, "skip_input_indices", None) or ()
    return [part for place, part in enumerate(parts) if place not in skipped]


def same(one: Any, other: Any) -> bool:
    """Whether two gradients are alike."""
    try:
        first, second = tf.nest.flatten(one), tf.nest.flatten(other)
        return len(first) == len(second) and all(map(_alike, first, second))
    except Exception:
        return False


def _alike(one: Any, other: Any) -> bool:
    if (one is None) != (other is None):  # None says zero
        given = other if one is None else one
        return tf.is_tensor(given) and not np.any(given.numpy())
    if isinstance(one, tf.IndexedSlices) or isinstance(other, tf.IndexedSlices):  # rows, or all of them: one tensor
        one, other = tf.convert_to_tensor(one), tf.convert_to_tensor(other)
    if tf.is_tensor(one) and tf.is_tensor(other):
        if one.dtype == other.dtype == tf.variant:  # of what is inside, the values for the arguments behind it tell
            return True
        return one.dtype == other.dtype and np.array_equal(
            one.numpy(), other.numpy(), equal_nan=one.dtype.is_floating or one.dtype.is_complex
        )
    return type(one) is type(other) and bool(one == other)


def scaled(value: Any) -> Any:
    """A result, or each of several, a little too large."""
    if isinstance(value, (list, tuple)):
        return type(value)(map(scaled, value))
    return value * tf.cast(SCALE, value.dtype) if tf.is_tensor(value) and not value.dtype.is_integer else value


@contextmanager
def applied(change: Change) -> Iterator[Effect]:
    """Puts a change into the gradient registry, and takes it out again whatever happens."""
    syntax = Places(change.number).visit(function_of(change.code))
    module = ast.fix_missing_locations(ast.Module([syntax], []))
    entries = [ops.gradient_registry._registry[name] for name in change.operations]
    right, effect = entries[0]["type"], Effect()
    names = {"chosen_by_the_change": effect.chosen, "scaled_by_the_change": scaled}
    space = {**right.__globals__, **names}
    exec(compile(module, change.code.file, "exec"), space)  # TensorFlow's own source, changed
    for entry in entries:
        entry["type"] = effect.watched(right, space[change.code.name])
    forget()
    try:
        yield effect
    finally:
        for entry in entries:
            entry["type"] = right
        forget()


def forget() -> None:
    """Clears the caches of gradient functions: pushforwards traced with them, and the shapes that _SumGrad made."""
    forwardprop._jvp_function_cache.clear()
    context.context().ones_rank_cache().flush()


def outcome(change: Change, examples: int) -> dict[str, Any]:
    """The outcome of a change."""
    if change.proof:
        return {"outcome": "equivalent", "verdicts": {}, "proof": change.proof}
    return effect_of(change, examples)


def effect_of(change: Change, examples: int) -> dict[str, Any]:
    """The outcome of a change in the tests, whether it is known to be equivalent or not."""
    verdicts: Counter[str] = Counter()
    with applied(change) as effect, traced_anew():
        for operation, order, mode, count in tests_of(change, examples):
            noticed = hunted(operation, order, mode, count, verdicts)
            if noticed:
                way = "" if mode == PLAIN else f" ({mode})"
                return {"outcome": "noticed", "by": f"{operation}, order {order}{way}: {noticed}"}
    what = "not noticed" if effect.differed else "no effect" if effect.runs else "never run"
    return {"outcome": what, "verdicts": dict(verdicts)}


def tests_of(change: Change, examples: int) -> Iterator[tuple[str, int, Mode, int]]:
    """The operations that go through the function, with orders, modes, and numbers of graphs.

    As in the properties: after all operations in the plain mode, one graph in `SHARE` of each in a mode of its own.
    """
    specs = [spec for spec in CATALOGUE.values() if set(spec.gradients) & set(change.operations)]
    for one in specs:
        yield from ((one.name, order, PLAIN, examples) for _, order in ways(one.name, (PLAIN,)))
    for one in specs:
        pairs = ways(one.name, LIGHT)
        chosen = random.Random(f"{change.name} {one.name}").sample(pairs, min(len(pairs), max(1, examples // SHARE)))
        for mode, order in chosen:
            yield one.name, order, mode, 1


class NoticedError(Exception):
    """A graph is wrong; the message is the kind."""


def hunted(operation: str, order: int, mode: Mode, examples: int, verdicts: Counter[str]) -> str:
    """The kind of the first mismatch among `examples` graphs with an operation; empty if there is none."""

    def look(graph: Graph) -> None:
        checked = trial.run(graph, (order,), mode=mode)
        verdict = checked.result.orders[order].verdict
        verdicts[str(verdict)] += 1
        if verdict == Verdict.MISMATCH:
            found = finding_of(checked, order, node_trials(checked.problem.mode))
            if match(found) is None:
                raise NoticedError(str(found.findings[0].kind))

    try:
        left_out = partial(left_out_in, mode)
        nodes = 8 if mode == PLAIN else 2
        drawn = graphs(containing=operation, order=order, max_nodes=nodes, known=left_out)
        drawing.draw_each(drawn, 1, examples, look)
    except NoticedError as noticed:
        return str(noticed)
    except HypothesisException:  # nothing could be drawn
        return ""
    except Exception as error:  # what the harness does not expect of a gradient is noticed as well
        return f"raised {type(error).__name__}"
    return ""


def measured(change: Change, examples: int) -> dict[str, Any]:
    """The row of a change."""
    return {"line": change.line, "what": change.text, **outcome(change, examples)}


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--changes", type=int, default=100, help="how many, drawn at random (default: 100)")
    parser.add_argument("--all", action="store_true", help="all changes, in a random order")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--examples", type=int, default=10, help="graphs a test (default: 10, as in a hunt with dev)")
    parser.add_argument("--shard", type=Shard.parse, default=Shard(), help="take the K-th of N shares")
    resumed.add_option(parser)
    parser.add_argument("--only", help="changes whose names contain this text")
    parser.add_argument("--least", type=float, default=0.0, help="exit 1 if a smaller share is noticed (default: 0)")
    options = parser.parse_args()
    every = [change for change in changes() if not options.only or options.only in change.name]
    count = len(every) if options.all else min(options.changes, len(every))
    drawn = random.Random(options.seed).sample(every, count)
    print(f"{len(drawn)} of {len(every)} changes")
    kept, rows = resumed.Rows(options.into, "change"), []
    for change in drawn:
        if not options.shard.takes(change.name):
            continue
        fatal = {"line": change.line, "what": change.text, "outcome": "noticed", "by": "TensorFlow crashes the process"}
        row = kept.get((change.name,), partial(measured, change, options.examples), fatal=fatal)
        rows.append(row)
        if row["outcome"] != "noticed":
            why = row.get("proof") or row["verdicts"]
            print(f"{row['outcome']:12s} {row['change']}, line {row['line']}: {row['what']} {why}", flush=True)
    counts = Counter(row["outcome"] for row in rows)
    others = len(rows) - counts["equivalent"]
    for what, count in counts.most_common():
        share = f"{count / others:6.1%}" if what != "equivalent" else "not counted"
        print(f"{what:12s} {count:5d} {share}")
    if counts["noticed"] < options.least * others:
        sys.exit(f"{counts['noticed']} of {others} changes were noticed; expected {options.least:.0%} at least")


if __name__ == "__main__":
    main()
