"""The cost of a hunt's examples: drawn graphs of a fixed list of operations at both orders, beside another commit.

    python tests/benchmarks/examples.py record FILE [--operations 200] [--seed 7]
    python tests/benchmarks/examples.py time FILE

`record` draws a graph for each of so many operations of the catalogue, evenly spaced, and writes them to a file, one
JSON line each. `time` checks them, on this commit or another: the first time, with what is made once for an operation,
and again. It prints examples a second of processor time, an order of a graph being one, the slowest graphs, and a
digest of the verdicts, which tells whether two commits agree. Each graph is checked at both orders in one call, and
with --apart at one order after the other, as hunts did before they took both together.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import statistics
import time
from pathlib import Path
from typing import Any

from gradcheck import runtime

runtime.configure()

from gradcheck.hunt import trial  # noqa: E402
from gradcheck.hunt.graph_json import from_json, to_json  # noqa: E402

SHOWN = 10


def record(path: Path, count: int, seed: int) -> None:
    """Write a drawn graph for each of `count` operations, at their highest orders."""
    from drawing import draw_each
    from gradcheck.strategies.graphs import graphs

    from gradcheck.autodiff.mode import PLAIN
    from gradcheck.defects import known
    from gradcheck.hunt.known_graphs import ways
    from gradcheck.operations.catalogue import CATALOGUE

    orders = {name: [order for _, order in ways(name, (PLAIN,))] for name in CATALOGUE}
    names = [name for name, found in orders.items() if found]
    lines = []
    for name in names[:: max(1, len(names) // count)][:count]:
        drawn: list[Any] = []
        draw_each(graphs(containing=name, order=max(orders[name]), known=known.excludes), seed, 2, drawn.append)
        lines.append(json.dumps({"operation": name, "order": max(orders[name]), "graph": to_json(drawn[-1])}))
    path.write_text("\n".join(lines) + "\n")
    print(f"{len(lines)} graphs written")


def timed(path: Path, apart: bool) -> None:
    """Check the graphs of a file twice, and print what that costs."""
    seconds: list[tuple[float, float, str]] = []
    verdicts, examples = [], 0
    for line in path.read_text().splitlines():
        row = json.loads(line)
        graph, orders = from_json(row["graph"]), tuple(range(1, row["order"] + 1))
        taken = []
        for _ in range(2):
            began = time.process_time()
            results: dict[int, Any] = {}
            for some in [(order,) for order in orders] if apart else [orders]:
                results |= trial.run(graph, some).result.orders
            taken.append(time.process_time() - began)
        examples += len(orders)
        seconds.append((taken[0], taken[1], row["operation"]))
        verdicts.append((row["operation"], {order: str(one.verdict) for order, one in sorted(results.items())}))
    for name, each in (("the first time", [one[0] for one in seconds]), ("again", [one[1] for one in seconds])):
        rate, median = examples / sum(each), statistics.median(each)
        print(f"{name}: {examples} examples in {sum(each):.1f} s, {rate:.1f} a second; median {median:.3f} s a graph")
    print(f"verdicts: {hashlib.sha256(json.dumps(verdicts).encode()).hexdigest()[:12]}")
    for first, again, name in sorted(seconds, key=lambda one: -one[1])[:SHOWN]:
        print(f"  {first:6.2f} {again:6.2f} s  {name}")


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("record", "time"))
    parser.add_argument("file", type=Path)
    parser.add_argument("--operations", type=int, default=200)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--apart", action="store_true", help="check one order after the other")
    options = parser.parse_args()
    if options.what == "record":
        record(options.file, options.operations, options.seed)
    else:
        timed(options.file, options.apart)


if __name__ == "__main__":
    main()
