"""No false alarm: random graphs outside of the known regions, at orders 1 and 2, and how each one ended.

    python tests/benchmarks/false_alarms.py --graphs 20000 --seeds 1 2 3 4 5

Prints a table per seed: verdicts, shares of special values and reuse, the median number of nodes, valid share of the
attempts, and how many graphs were drawn again and not checked (Hypothesis mutates what it has drawn, which may change
nothing). Every mismatch, and the first inconclusive graphs, are printed in full.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from drawing import draw_each
from gradcheck.strategies.graphs import graphs
from gradcheck.strategies.values import is_special

from gradcheck.defects import known
from gradcheck.graph import Graph
from gradcheck.hunt.coverage import COMPOSED, KINK
from gradcheck.hunt.graph_json import to_json
from gradcheck.result import Verdict

KNOWN = "known defect"
"""The outcome of a graph that raises as a record says; it is drawn, and left to the record."""


@dataclass
class Tally:
    """The outcomes of one seed's graphs."""

    rejected: int = 0
    outcomes: Counter[tuple[int, str]] = field(default_factory=Counter)
    nodes: list[int] = field(default_factory=list)
    repeated: int = 0
    special: int = 0
    reused: int = 0
    shown: list[str] = field(default_factory=list)


def hunt(number: int, count: int, show: int) -> Tally:
    """Draw `count` graphs with one seed and check both orders of each."""
    from gradcheck.hunt import examine as hunting
    from gradcheck.hunt import known_graphs, trial
    from gradcheck.hunt.blame import finding_of

    tally, seen = Tally(), set[str]()

    def check(graph: Graph) -> None:
        text = json.dumps(to_json(graph))
        if text in seen:
            tally.repeated += 1
            return
        seen.add(text)
        tally.nodes.append(len(graph.nodes))
        tally.special += any(map(is_special, graph.inputs))
        tally.reused += max(graph.uses()) > 1
        checked = trial.run(graph)
        for order, result in checked.result.orders.items():
            outcome = hunting.outcome(checked, order)
            if outcome == Verdict.MISMATCH and known_graphs.match(finding_of(checked, order)):
                outcome = KNOWN
            tally.outcomes[order, outcome] += 1
            if outcome == Verdict.MISMATCH or (outcome == Verdict.INCONCLUSIVE and len(tally.shown) < show):
                tally.shown.append(f"order {order}: {text}\n{result}")

    tally.rejected = draw_each(graphs(order=2, known=both), number, count, check)
    return tally


def both(op: str, attributes: Any, arguments: Any, _order: int, before: Any) -> str | None:
    """The known regions of both orders."""
    first, second = (known.excludes(op, attributes, arguments, order, before) for order in (1, 2))
    return first or second


def table(number: int, tally: Tally) -> str:
    """The figures of one seed."""
    graphs_drawn = len(tally.nodes)
    valid = 1 - tally.rejected / (graphs_drawn + tally.repeated + tally.rejected)
    lines = [
        f"seed {number}: {graphs_drawn} graphs ({tally.repeated} more were drawn again), "
        f"median {statistics.median(tally.nodes)} nodes, special values {tally.special / graphs_drawn:.1%}, "
        f"a value used twice {tally.reused / graphs_drawn:.1%}, "
        f"valid {valid:.1%} of the attempts ({tally.rejected} rejected)"
    ]
    for order in (1, 2):
        counts = {outcome: count for (at, outcome), count in tally.outcomes.items() if at == order}
        smooth = graphs_drawn - counts.get(KINK, 0) - counts.get(COMPOSED, 0)
        lines.append(
            f"  order {order}: "
            + ", ".join(f"{outcome} {count}" for outcome, count in sorted(counts.items()))
            + f"; inconclusive of those on no kink {counts.get(Verdict.INCONCLUSIVE, 0) / max(smooth, 1):.2%}"
            + f", composed kinks {counts.get(COMPOSED, 0) / graphs_drawn:.1%}"
        )
    return "\n".join(lines)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", type=int, default=20_000, help="graphs in all, shared by the seeds")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    parser.add_argument("--show", type=int, default=5, help="how many inconclusive graphs to print")
    options = parser.parse_args()
    for number in options.seeds:
        tally = hunt(number, options.graphs // len(options.seeds), options.show)
        print(table(number, tally), flush=True)
        for text in tally.shown:
            print(text, flush=True)


if __name__ == "__main__":
    main()
