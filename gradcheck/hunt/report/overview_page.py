"""The HTML page of a whole run: findings, known defects, what was tested and how sharply."""

from __future__ import annotations

from collections.abc import Mapping

from gradcheck.hunt.events import Crash, Hang, State
from gradcheck.hunt.report import coverage_section, known_section, run_section
from gradcheck.hunt.report.json_report import Report
from gradcheck.hunt.report.markdown import over
from gradcheck.hunt.report.markup import Markup, element, escaped
from gradcheck.hunt.report.page import badge, fact, page, section
from gradcheck.hunt.report.reach import Grade, Reach, reaches
from gradcheck.hunt.report.run import HuntRun
from gradcheck.hunt.report.sentence import sentence


def overview_page(run: HuntRun, left_out: Mapping[tuple[str, int], str] | None = None) -> str:
    """The page as text; findings link to the pages `<name>.html` beside it.

    `left_out` maps (operation, order) to the known defect that leaves it no use. Imports no TensorFlow.
    """
    reached = reaches(run, left_out)
    content = [
        element("p", "gradcheck · a run", class_="soft"),
        element("h1", headline(run)),
        _facts(run, reached),
        _findings(run),
        _stopped(run),
        known_section.known(run),
        coverage_section.coverage(reached),
        coverage_section.hardly(reached),
        coverage_section.resolution(reached),
        run_section.processes(run),
        element("p", "reports/README.md says how to read it.", class_="soft"),
    ]
    return page(f"gradcheck: {headline(run)}", *content)


def headline(run: HuntRun) -> str:
    """The outcome in a few words."""
    parts = [_count(len(run.findings), "new finding")] if run.findings else ["No new finding"]
    parts += [_count(len(run.crashes), "crash", "crashes")] if run.crashes else []
    parts += [_count(len(run.hangs), "hang")] if run.hangs else []
    fixed = known_section.latest(run)[State.FIXED]
    parts += [f"{fixed} known fixed"] if fixed else []
    return ", ".join(parts)


def examples(run: HuntRun) -> int:
    """The examples that all processes checked, those of processes without a last word included."""
    return max(sum(sum(done.counts.values()) for done in run.operations), sum(each.examples for each in run.finished))


def rate(run: HuntRun) -> float | None:
    """Examples a second of a process: all examples over the time that all processes took together."""
    seconds = sum(each.seconds for each in run.finished)
    return sum(each.examples for each in run.finished) / seconds if seconds > 0 else None


def _facts(run: HuntRun, reached: tuple[Reach, ...]) -> Markup:
    speed, states = rate(run), known_section.latest(run)
    facts = [
        fact("new findings", len(run.findings), "wrong" if run.findings else "right"),
        fact("known, still there", states[State.STILL]),
        fact("known, fixed", states[State.FIXED], "right" if states[State.FIXED] else None),
        *(fact(f"tested at order {order}", _share(reached, order)) for order in (1, 2)),
        fact("examples", f"{examples(run):,}"),
    ]
    if speed is not None:
        facts.append(fact("examples a second", f"{speed:.3g}"))
    return element("dl", *facts, class_="facts")


def _share(reached: tuple[Reach, ...], order: int) -> str:
    wanted = [each for each in reached if each.order == order and each.grade is not Grade.NONE]
    return f"{sum(each.grade is Grade.GREEN for each in wanted)} of {len(wanted)}"


def _findings(run: HuntRun) -> Markup:
    if not run.findings:
        return section("Findings", element("p", "Nothing new is wrong."))
    return section(
        "Findings, the most severe first", element("ol", *(_finding(report) for report in run.ranked), class_="plain")
    )


def _finding(report: Report) -> Markup:
    found = report.discovery
    worst = found.findings[0]
    said = sentence(found, report.confirmation, text=escaped, code=lambda name: element("code", name))
    facts = [f"order {found.order}", _count(len(found.graph.nodes), "operation")]
    facts += [f"off by {over(worst)}"] if over(worst) != "-" else []
    return element(
        "li",
        element("a", element("b", found.culprit), href=f"{found.name}.html"),
        " ",
        badge(found.signature.kind.value, "wrong"),
        element("p", Markup(said)),
        element("small", " · ".join(facts)),
        class_="item",
    )


def _stopped(run: HuntRun) -> Markup | None:
    stopped: list[Crash | Hang] = [*run.crashes, *run.hangs]
    if not stopped:
        return None
    items = [
        element(
            "li",
            element("b", each.operation),
            " ",
            badge(each.kind, "wrong"),
            element("p", f"{each.message} at order {each.order}: ", element("code", _operations(each))),
            element("small", each.name),
            class_="item",
        )
        for each in stopped
    ]
    return section("Crashes and hangs", element("ol", *items, class_="plain"))


def _operations(stopped: Crash | Hang) -> str:
    return " → ".join(node.op for node in stopped.graph.nodes)


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"
