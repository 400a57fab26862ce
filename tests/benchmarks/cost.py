"""The cost of a check, in units of the derivative that it checks, all in one run.

    python tests/benchmarks/cost.py [--graphs 60] [--elements 12 1000]

For drawn graphs of 2 to 8 nodes, no two of them with the same operations: the check of order 1, of order 2 (one
direction) and of both together against one eager gradient plus one nested-tape Hessian-vector product, without and with
the derivatives under test themselves (the gradient, the product, both of them), and with generation. Graphs whose
derivative raises, as that of a known defect, have nothing to compare with and are counted separately. For a fixed
graph of six operations at 12 and 1,000 elements: the first-order check against tf.test.compute_gradient. What is
compared takes turns, and the fastest turn counts, in processor time, so that other processes matter little; the medians
over the graphs are printed. Only the ratios mean something.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import drawing
import numpy as np
import tensorflow as tf
from gradcheck.strategies.graphs import graphs

from gradcheck.autodiff.reverse import DerivativeRaisedError, pullbacks, second_pullbacks
from gradcheck.defects import known
from gradcheck.graph import Graph, Input, Node
from gradcheck.hunt import trial
from gradcheck.hunt.evaluation import forward, values_of
from gradcheck.hunt.nonsmooth import nonsmooth_nodes
from gradcheck.operations.catalogue import CATALOGUE

REPEATS, ROW = 5, 5
CHECKS = {"order 1 alone": (1,), "order 2 alone": (2,), "orders 1 and 2": (1, 2)}
"""The checks to time, by name; order 1 tests the gradient, order 2 the product."""

EXAMPLES = 12
"""Graphs that are drawn for each one that is kept, since Hypothesis draws many with the same operations."""


def seconds(*runs: Callable[[], Any], repeats: int = REPEATS) -> list[float]:
    """The least processor time of each call; they take turns of a few calls each, as a hunt makes many in
    succession."""
    least = [float("inf")] * len(runs)
    for _ in range(repeats):
        for place, run in enumerate(runs):
            for _ in range(ROW):
                start = time.process_time()
                run()
                least[place] = min(least[place], time.process_time() - start)
    return least


def costs(graph: Graph) -> list[float]:
    """The times of one eager gradient, of one nested-tape Hessian-vector product, and of each of the `CHECKS`.

    Raises DerivativeRaisedError where a derivative raises.
    """
    tensors = [tf.constant(literal.array()) for literal in graph.inputs]
    weight = [tf.ones_like(forward(graph, tensors)[-1])]
    directions = [tf.ones_like(tensor) for tensor in tensors]

    def outputs(sources: list[Any]) -> list[Any]:
        return [forward(graph, sources)[-1]]

    return seconds(
        lambda: pullbacks(outputs, tensors, [weight]),
        lambda: second_pullbacks(outputs, tensors, weight, [directions]),
        *(partial(trial.run, graph, orders) for orders in CHECKS.values()),
    )


def costs_of_each(sample: Sequence[Graph]) -> list[list[float]]:
    """The costs of the graphs whose derivatives do not raise; some of those drawn raise by a known defect."""
    rows = []
    for graph in sample:
        with suppress(DerivativeRaisedError):
            rows.append(costs(graph))
    return rows


def drawn(count: int, number: int) -> tuple[list[Graph], float]:
    """Smooth graphs of 2 to 8 nodes, each with operations of its own, and the processor time that drawing one took."""
    found: dict[tuple[str, ...], Graph] = {}
    attempts = 0

    def keep(graph: Graph) -> None:
        nonlocal attempts
        attempts += 1
        names = tuple(node.op for node in graph.nodes)
        if 2 <= len(names) <= 8 and not any(CATALOGUE[name].looped for name in names):
            found[names] = graph

    start = time.process_time()
    drawing.draw_each(graphs(order=2, known=known.excludes), number, EXAMPLES * count, keep)
    elapsed = (time.process_time() - start) / max(attempts, 1)
    smooth = [graph for graph in found.values() if not nonsmooth_nodes(graph, values_of(graph)).positions]
    places = np.linspace(0, len(smooth) - 1, min(count, len(smooth))).astype(int)
    return [smooth[place] for place in places], elapsed


def against_compute_gradient(elements: int) -> float:
    """How many times as long tf.test.compute_gradient takes as our check, for six element-wise operations."""
    values = tuple(np.random.default_rng(0).uniform(0.5, 1.5, elements).tolist())
    names = ("sin", "square", "exp", "tanh", "sigmoid")
    graph = Graph((Input((elements,), values),), tuple(Node.of(name, place) for place, name in enumerate(names)))
    graph = Graph(graph.inputs, (*graph.nodes, Node.of("mul", graph.size - 1, 0)))
    tensor = tf.constant(graph.inputs[0].array())
    peer, ours = seconds(
        lambda: tf.test.compute_gradient(lambda x: forward(graph, [x])[-1], [tensor]),
        lambda: trial.run(graph, (1,)),
        repeats=4 * REPEATS if elements < 100 else 1,
    )
    return peer / ours


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", type=int, default=60, help="how many drawn graphs to time")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--elements", type=int, nargs="+", default=[12, 1000], help="sizes of the fixed graph")
    options = parser.parse_args()
    sample, each = drawn(options.graphs, options.seed)
    rows = costs_of_each(sample)
    units = [gradient + product for gradient, product, *_ in rows]
    generation = each / statistics.median(units)
    print(f"{len(rows)} drawn graphs of 2 to 8 nodes, in units of one gradient plus one Hessian-vector product")
    print(f"({len(sample) - len(rows)} more are left out, as their derivative raises):")
    print(f"{'':18s}{'differences and verdict':>26s}{'with generation':>18s}{'the whole check':>18s}")
    for place, (name, orders) in enumerate(CHECKS.items(), start=2):
        tested = [sum(row[order - 1] for order in orders) for row in rows]
        whole = statistics.median(row[place] / unit for row, unit in zip(rows, units, strict=True))
        added = statistics.median((r[place] - own) / unit for r, own, unit in zip(rows, tested, units, strict=True))
        print(f"  {name:16s}{added:26.2f}{added + generation:18.2f}{whole:18.2f}")
    for elements in options.elements:
        ratio = against_compute_gradient(elements)
        print(f"tf.test.compute_gradient at {elements} elements: {ratio:.1f} times the check of first order")


if __name__ == "__main__":
    main()
