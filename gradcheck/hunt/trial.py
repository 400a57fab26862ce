"""The trial of a graph: its derivatives checked in a mode, and everything that a report of it needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from gradcheck.autodiff.mode import PLAIN, Mode
from gradcheck.hunt.blame import blame, squared
from gradcheck.hunt.evaluation import values_of
from gradcheck.hunt.graph import Graph
from gradcheck.hunt.graph_check import GraphCheck, OrderCheck
from gradcheck.hunt.graph_problem import NonsmoothNodes
from gradcheck.hunt.modes import check_in_mode
from gradcheck.result import Result, Verdict

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Trial:
    """What came out of checking a graph's derivatives in `mode`, order by order, and what they were checked with.

    `values` are those at all positions. `cotangent` (m,) and `direction` (n,; None without second order) are the
    coordinates that the derivatives were taken with.
    """

    graph: Graph
    mode: Mode
    orders: Mapping[int, OrderCheck]
    values: tuple[Array, ...]
    nonsmooth_nodes: NonsmoothNodes
    cotangent: Array
    direction: Array | None

    @cached_property
    def result(self) -> Result:
        """The results of all orders."""
        return Result({order: check.result for order, check in self.orders.items()})

    @property
    def kinks(self) -> int:
        """How many nodes are at a kink."""
        return len(self.nonsmooth_nodes.kinks)

    @property
    def singular(self) -> bool:
        """Whether a node is at a singular point."""
        return bool(self.nonsmooth_nodes.singular)

    @property
    def error_ratio(self) -> float:
        """The largest error over what is allowed, for a search that aims at it; 0 where nothing was compared."""
        compared = (table for check in self.orders.values() for table in check.tables)
        return max((float(np.max(table.excess(), initial=0.0)) for table in compared), default=0.0)


def run(
    graph: Graph,
    orders: tuple[int, ...] = (1, 2),
    *,
    weights: Array | None = None,
    vector: Array | None = None,
    mode: Mode = PLAIN,
) -> Trial:
    """Check a graph's derivatives at its literal inputs, as taken in a mode.

    No node at a kink: <w, y> for a fixed random cotangent w, against every coordinate (order 1) and along one direction
    (order 2). One: the subgradient test, output by output, and no second order. More, or a singular point: a
    convention, not checked. The coordinates `weights` and `vector` replace the random cotangent and direction.

    In another mode than the plain one, one order is checked: it agrees where it equals the plain derivative; else the
    estimates decide. Where they contradict the plain derivative, that is the finding, and the trial's mode is plain.
    Raises ValueError for several orders in such a mode.
    """
    if mode != PLAIN and len(orders) != 1:
        raise ValueError(f"orders were {orders}; in the mode {mode} one is checked at a time")
    check = GraphCheck.at_inputs(graph, weights, vector, mode)
    if mode == PLAIN:
        checked = check.orders(orders)
    else:
        (order,) = orders
        mode, one = check_in_mode(check, order)
        checked = {order: one}
    direction = check.direction if 2 in checked and not check.empty else None
    return Trial(graph, mode, checked, check.values, check.nonsmooth_nodes, check.cotangent, direction)


def culprit(graph: Graph, order: int, check: Callable[[Graph, tuple[int, ...]], Trial] = run) -> int | None:
    """The position of the first node whose own derivative is wrong by a `check`; None where only the whole is.

    At order 2 a node is tried with its square behind it, too: a linear operation shows a wrong second derivative only
    where what comes from above depends on the inputs.
    """

    def wrong(node: Graph) -> bool:
        tried = (node, squared(node)) if order == 2 else (node,)
        return any(check(one, (order,)).result.verdict == Verdict.MISMATCH for one in tried)

    return blame(graph, values_of(graph), wrong)
