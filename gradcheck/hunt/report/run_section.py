"""The overview's account of the processes: shards, seeds, machines, how they ended."""

from __future__ import annotations

from gradcheck.hunt.report.markup import Markup, element
from gradcheck.hunt.report.page import more, number, pairs, row, section, table, words
from gradcheck.hunt.report.run import HuntRun


def processes(run: HuntRun) -> Markup:
    """Who ran, with which seed, on what, for how long; and what could not be read."""
    started = [
        row(
            each.shard,
            words(each.profile),
            each.seed,
            number("all" if not each.operations else str(len(each.operations))),
            number("–" if each.budget_minutes is None else f"{each.budget_minutes:g}"),
            words(f"{each.environment.tensorflow} on {each.environment.processor}"),
        )
        for each in run.started
    ]
    finished = [
        row(
            each.shard,
            words(each.how.value),
            number(f"{each.examples:,}"),
            number(f"{each.seconds:.1f}"),
            number(f"{each.examples / each.seconds:.3g}" if each.seconds > 0 else "–"),
        )
        for each in run.finished
    ]
    machines = {each.environment.rows() for each in run.started}
    return section(
        "Processes",
        *(element("p", remark, class_="soft") for remark in run.remarks),
        table(("shard", "profile", "seed", "operations #", "minutes #", "TensorFlow"), started),
        table(("shard", "ended", "examples #", "seconds #", "a second #"), finished) if finished else None,
        *(
            more("Environment", pairs((name, element("code", value)) for name, value in rows))
            for rows in sorted(machines)
        ),
    )
