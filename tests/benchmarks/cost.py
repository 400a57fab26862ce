"""What a check costs, in units of the derivative that it checks, all in one run.

    python tests/benchmarks/cost.py

For drawn graphs of 2 to 8 nodes: the check of orders 1 and 2 (one direction) against one eager gradient plus one
nested-tape Hessian-vector product, without and with the derivatives under test themselves, and with generation. For a
fixed graph of six operations at 12 and 1,000 elements: the first-order check against tf.test.compute_gradient. Medians;
only the ratios mean something.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
from gradcheck.strategies.graphs import graphs
from hypothesis import HealthCheck, Phase, given, seed, settings

from gradcheck import known, runtime, trial
from gradcheck.autodiff.pullback import pullbacks, second_pullbacks
from gradcheck.graphs.catalogue import CATALOGUE
from gradcheck.graphs.evaluation import forward
from gradcheck.graphs.graph import Graph, Input, Node

REPEATS = 7


def seconds(run: Callable[[], Any], repeats: int = REPEATS) -> float:
    """The median time of a call, after one that does not count."""
    run()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def derivatives(graph: Graph) -> tuple[float, float]:
    """The times of one eager gradient and of one nested-tape Hessian-vector product of a graph."""
    tensors = [tf.constant(literal.array()) for literal in graph.inputs]
    output = forward(graph, tensors)[-1]
    weight = [tf.ones_like(output)]

    def outputs(sources: list[Any]) -> list[Any]:
        return [forward(graph, sources)[-1]]

    directions = [tf.ones_like(tensor) for tensor in tensors]
    return (
        seconds(lambda: pullbacks(outputs, tensors, [weight])),
        seconds(lambda: second_pullbacks(outputs, tensors, weight, [directions])),
    )


def drawn(count: int, number: int) -> tuple[list[Graph], float]:
    """Smooth graphs of 2 to 8 nodes, and the time that drawing one took."""
    found: list[Graph] = []
    attempts = 0

    @seed(number)
    @settings(
        max_examples=4 * count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=[HealthCheck.too_slow],
    )
    @given(graphs(order=2, known=known.excludes))
    def draw(graph: Graph) -> None:
        nonlocal attempts
        attempts += 1
        if 2 <= len(graph.nodes) <= 8 and not any(CATALOGUE[node.op].looped for node in graph.nodes):
            found.append(graph)

    start = time.perf_counter()
    draw()
    elapsed = (time.perf_counter() - start) / max(attempts, 1)
    checked = [graph for graph in found[-2 * count :] if trial.run(graph, (1,)).standing.smooth]
    return checked[:count], elapsed


def against_compute_gradient(elements: int) -> float:
    """How many times as long tf.test.compute_gradient takes as our check, for six element-wise operations."""
    values = tuple(np.random.default_rng(0).uniform(0.5, 1.5, elements).tolist())
    names = ("sin", "square", "exp", "tanh", "sigmoid")
    graph = Graph((Input((elements,), values),), tuple(Node.of(name, place) for place, name in enumerate(names)))
    graph = Graph(graph.inputs, (*graph.nodes, Node.of("mul", graph.size - 1, 0)))
    tensor = tf.constant(graph.inputs[0].array())
    peer = seconds(
        lambda: tf.test.compute_gradient(lambda x: forward(graph, [x])[-1], [tensor]),
        repeats=3 if elements < 100 else 1,
    )
    return peer / seconds(lambda: trial.run(graph, (1,)))


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", type=int, default=60, help="how many drawn graphs to time")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    runtime.configure()
    sample, drawing = drawn(options.graphs, options.seed)
    rows = []
    for graph in sample:
        gradient, product = derivatives(graph)
        rows.append((gradient, product, seconds(lambda graph=graph: trial.run(graph))))  # type: ignore[misc]
    units = [gradient + product for gradient, product, _ in rows]
    added = statistics.median((check - unit) / unit for (_, _, check), unit in zip(rows, units, strict=True))
    whole = statistics.median(check / unit for (_, _, check), unit in zip(rows, units, strict=True))
    with_drawing = added + drawing / statistics.median(units)
    print(f"{len(rows)} drawn graphs of 2 to 8 nodes, in units of one gradient plus one Hessian-vector product:")
    print(f"  differences and verdict, orders 1 and 2   {added:.2f}")
    print(f"  the same with generation                  {with_drawing:.2f}")
    print(f"  the whole check, derivatives included     {whole:.2f}")
    for elements in (12, 1000):
        ratio = against_compute_gradient(elements)
        print(f"tf.test.compute_gradient at {elements} elements: {ratio:.1f} times the check of first order")


if __name__ == "__main__":
    main()
