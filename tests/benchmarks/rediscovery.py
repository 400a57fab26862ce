"""Every known defect of a graph from scratch, nothing left out of generation: whether the hunt finds it, and how soon.

    python tests/benchmarks/rediscovery.py [--only TEXT ...] [--seeds 10] [--examples 100] [--shard 1/1] [--into FILE]

Of each record the operation's own tests are run in the record's mode, with each seed, until a finding matches the
record or --examples have been checked: random graphs, and, in 16 bits and modes of functions, sums of many terms. It is
shrunk for ten seconds at most. Other findings do not count, and do not end the run; those that no record explains are
listed as `instead`. The table has in how many seeds it was found, after how many examples and seconds in the median,
and the smallest graph. With --into, lines of JSON are added as they come, and what is there already is not run again.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import Any

import drawing  # noqa: F401  (configures TensorFlow)
import resumed
import tensorflow as tf
from gradcheck.strategies import profiles
from gradcheck.strategies.graphs import graphs
from gradcheck.strategies.long_sums import SUMMED_IN, long_starts, long_sums
from hypothesis import HealthCheck, Verbosity, given, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import HypothesisException

from gradcheck.autodiff.coordinates import to_coordinates
from gradcheck.autodiff.mode import PLAIN, XLA, Mode
from gradcheck.defects import known
from gradcheck.defects.records import Defect
from gradcheck.graph import Graph
from gradcheck.hunt import monitor
from gradcheck.hunt.configuration import Shard
from gradcheck.hunt.coverage import Coverage
from gradcheck.hunt.examine import Found, examine
from gradcheck.hunt.known_graphs import match
from gradcheck.typing import Array

NODES, NODES_IN_MODE, NODES_IN_XLA = 8, 4, 2
SHRINKING = 10.0


class Hunt:
    """The test of one operation, with nothing left out of generation; matches of `defects` are no findings.

    `examples` and `seconds` are those until the first finding. One that is not of the `wanted` record, if there is one,
    is added to `instead` and passed over.
    """

    def __init__(
        self,
        operation: str,
        order: int,
        *,
        mode: Mode = PLAIN,
        defects: Sequence[Defect] = (),
        most: int = 0,
        wanted: Defect | None = None,
    ) -> None:
        self.operation, self.order, self.mode, self.defects, self.wanted = operation, order, mode, defects, wanted
        self.most = most or profiles.EXAMPLES[profiles.HUNT]
        self.examples, self.seconds = 0, 0.0
        self.instead: list[str] = []

    def findings(self, start: int) -> list[Found]:
        """The findings with one seed, shrunk."""
        began, found_one = time.perf_counter(), False
        nodes = NODES_IN_XLA if self.mode.mode == XLA else NODES if self.mode == PLAIN else NODES_IN_MODE
        nodes = 1 if self.mode.number_type else nodes

        @seed(start)
        @settings(
            max_examples=self.most,
            database=None,
            deadline=None,
            phases=profiles.PHASES,
            report_multiple_bugs=False,
            verbosity=Verbosity.quiet,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
        )
        @given(self._drawn(nodes))
        def run(drawn: tuple[Graph, Array | None]) -> None:
            nonlocal found_one
            graph, cotangent = drawn
            if not found_one:
                self.examples, self.seconds = self.examples + 1, time.perf_counter() - began
            weights = None if cotangent is None else to_coordinates(cotangent)
            try:
                examine(
                    graph,
                    self.order,
                    Coverage(),
                    operation=self.operation,
                    defects=self.defects,
                    mode=self.mode,
                    weights=weights,
                )
            except Found as error:
                if self.wanted is not None and match(error.found, defects=[self.wanted]) is None:
                    if not found_one:
                        self.instead.append(str(error.found.name))
                        monitor.current().rest()  # nothing is being shrunk yet
                    return
                found_one = True
                raise

        try:
            run()
        except Exception as error:
            return leaves(error)
        return []

    def _drawn(self, nodes: int) -> st.SearchStrategy[tuple[Graph, Array | None]]:
        """Graphs without a cotangent; and long sums with one, in the modes in which the tests draw them."""
        usual = graphs(containing=self.operation, order=self.order, max_nodes=nodes)
        without = usual.map(lambda graph: (graph, None))
        if self.order > 1 or self.mode not in SUMMED_IN or not long_starts(self.operation):
            return without
        sums = long_sums(self.operation, self.mode.number_type or "float64")
        return st.one_of(without, sums.filter(lambda drawn: drawn is not None))


def leaves(error: BaseException) -> list[Found]:
    """The findings in an exception or in a group of them; anything else is raised."""
    if isinstance(error, Found):
        return [error]
    if not hasattr(error, "exceptions"):
        raise error
    return [found for inner in error.exceptions for found in leaves(inner)]


def rediscovered(defect: Defect, start: int, examples: int) -> dict[str, Any]:
    """Whether one seed finds a record, after how many examples and seconds, and the smallest shrunk graph."""
    about = defect.signature
    others = [one for one in known.current(about.taken) if one.name != defect.name]
    hunt = Hunt(about.operation, about.order, mode=about.taken, defects=others, most=examples, wanted=defect)
    before = monitor.install(replace(monitor.Monitor(), shrink_seconds=SHRINKING))
    try:
        found = hunt.findings(start)
        ours = [one.finding.graph for one in found if match(one.found, defects=[defect]) is not None]
        graph = min(ours, key=lambda graph: graph.size) if ours else None
        instead = list(dict.fromkeys(hunt.instead))
    except HypothesisException as error:  # nothing could be drawn
        graph, instead = None, [type(error).__name__]
    finally:
        monitor.install(before)
    told = {"found": graph is not None, "instead": instead}
    return {**told, "examples": hunt.examples, "seconds": round(hunt.seconds, 2), "graph": shape_of(graph)}


def shape_of(graph: Graph | None) -> str:
    """The operations of a graph, and how many elements its inputs have."""
    if graph is None:
        return ""
    elements = sum(len(value.values) for value in graph.inputs)
    return f"{' '.join(node.op for node in graph.nodes)} ({elements} elements)"


def table(rows: Sequence[dict[str, Any]]) -> list[str]:
    """A line for each record, those that are found the least often first."""
    lines = []
    for name, group in groupby(sorted(rows, key=lambda row: str(row["record"])), key=lambda row: row["record"]):
        runs = list(group)
        found = [row for row in runs if row["found"]]
        examples = f"{statistics.median(row['examples'] for row in found):8.0f}" if found else f"{'-':>8s}"
        seconds = f"{statistics.median(row['seconds'] for row in found):8.1f}" if found else f"{'-':>8s}"
        least = min((row["graph"] for row in found), key=len, default="")
        lines.append(
            (len(found) / len(runs), f"{name:52s} {len(found):3d}/{len(runs):<3d}{examples}{seconds}  {least}")
        )
    return [line for _, line in sorted(lines, key=lambda one: one[0])]


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", help="records whose names contain one of these texts")
    parser.add_argument("--seeds", type=int, default=10, help="how many seeds, from 0 on (10)")
    parser.add_argument("--examples", type=int, default=100, help="examples of a seed at most (100)")
    parser.add_argument("--shard", type=Shard.parse, default=Shard(), help="take the K-th of N shares")
    resumed.add_option(parser)
    options = parser.parse_args()
    kept, rows = resumed.Rows(options.into, "record", "seed"), []
    for defect in known.load():
        chosen = not options.only or any(word in defect.name for word in options.only)
        if not (chosen and defect.covers(tf.__version__) and options.shard.takes(defect.name)):
            continue
        for start in range(options.seeds):
            rows.append(kept.get((defect.name, start), partial(rediscovered, defect, start, options.examples)))
    print(f"{'record':52s} {'found':>7s}{'examples':>8s}{'seconds':>8s}  shrunk to")
    print("\n".join(table(rows)))
    found = {row["record"] for row in rows if row["found"]}
    print(f"{len(found)} of {len({row['record'] for row in rows})} records found by one seed or more")


if __name__ == "__main__":
    main()
