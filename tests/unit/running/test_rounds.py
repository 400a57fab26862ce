"""A run with a budget: what is drawn in which order, by visits to tests, and what is passed over."""

from __future__ import annotations

from pathlib import Path

import hypothesis.core
import pytest

from gradcheck.hunt.running.rounds import RAREST
from tests.commands.test_pytest_plugin import run_here

pytest_plugins = ["pytester"]

CONFTEST = """
    from hypothesis import HealthCheck, settings
    from hypothesis.database import DirectoryBasedExampleDatabase

    settings.register_profile(
        "small",
        max_examples=7,
        derandomize=False,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        database=DirectoryBasedExampleDatabase("examples"),
    )
    settings.load_profile("small")
"""
TESTS = """
    import os
    import time
    import pytest
    from hypothesis import given, reject, settings, strategies as st, target
    from gradcheck.hunt import monitor

    def cases(*given, **how):
        return [pytest.param(*one, marks=pytest.mark.gradcheck_operation(*one, **how)) for one in given]

    def tell(text, example):
        with open("ran" + os.environ.get("PYTEST_XDIST_WORKER", ""), "a") as file:
            file.write(f"{text} {example}" + chr(10))

    def examine(text, example):
        if text == os.environ.get("REJECTS"):
            reject()
        if not monitor.current().passes_over(example):
            target(example)
            tell(text, example)
            with open("visits", "a") as file:
                file.write(f"{text} {monitor.current().visit}" + chr(10))
            if text == os.environ.get("FAILS") and example > 10:
                monitor.current().fail(example, None)
                raise AssertionError("planted")

    @pytest.mark.parametrize("record", range(6))
    def test_known(gradcheck_event, record):
        tell(f"record{record}", 0)
        time.sleep(float(os.environ.get("TAKES", "0")))

    @pytest.mark.parametrize(("name", "order"), cases(("sin", 1), ("sin", 2), ("exp", 1), ("exp", 2), ("tan", 1)))
    @given(st.integers(0, 10**6))
    def test_operation(gradcheck_coverage, name, order, example):
        examine(f"{name}{order}", example)

    @pytest.mark.parametrize("name", cases(*((f"op{place}",) for place in range(16)), rare=True))
    @given(st.integers(0, 10**6))
    def test_many_terms(gradcheck_coverage, name, example):
        examine(f"rare-{name}", example)

    @given(st.integers(0, 10**6))
    def test_graphs(gradcheck_coverage, example):
        examine("graphs", example)
"""
FIRST, SECOND = {"sin2", "exp2", "tan1"}, {"sin1", "exp1"}


@pytest.fixture(autouse=True)
def _not_of_this_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    monkeypatch.setattr(hypothesis.core, "global_force_seed", None)  # with which no example is kept


def hunt(pytester: pytest.Pytester, *arguments: str, minutes: float = 1) -> list[tuple[str, int]]:
    """The tests that ran and their examples, in order."""
    (pytester.path / "ran").write_text("")
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(TESTS)
    run_here(pytester, f"--gradcheck-minutes={minutes}", *arguments)
    return ran_in(pytester.path / "ran")


def ran_in(path: Path) -> list[tuple[str, int]]:
    return [(name, int(example)) for name, example in map(str.split, path.read_text().splitlines())]


def test_every_operation_comes_once_at_its_highest_order_before_any_comes_again(pytester: pytest.Pytester) -> None:
    ran = hunt(pytester)
    operations = [name for name, _ in ran if name in (*FIRST, *SECOND)]
    assert set(operations[:3]) == FIRST
    second = operations[3:10]  # one in two of the lower orders, the highest ones with the smallest example, too
    assert sorted(name for name in second if name in FIRST) == sorted([*FIRST, *FIRST])
    assert all(operations.count(name) == 7 for name in (*FIRST, *SECOND))
    assert [name for name, _ in ran if name.startswith("record")] == [f"record{place}" for place in range(6)]
    places = {name: [place for place, (other, _) in enumerate(ran) if other == name] for name, _ in ran}
    assert places["record5"][0] < min(places[name][0] for name in SECOND)
    assert len(places["graphs"]) == 7
    assert places["graphs"][1] < min(places[name][0] for name in SECOND)  # of many operations: often in each round


def test_what_is_rare_comes_in_every_round_but_an_eighth_of_it(pytester: pytest.Pytester) -> None:
    ran = [name for name, _ in hunt(pytester)]
    first = ran[: min(ran.index(name) for name in SECOND)]
    assert sum(name.startswith("rare") for name in first) == 16 / RAREST
    assert all(ran.count(f"rare-op{place}") >= 7 for place in range(16))


def test_the_first_example_is_not_the_smallest_and_the_second_visit_takes_that(pytester: pytest.Pytester) -> None:
    ran = hunt(pytester)
    for name in FIRST:
        examples = [example for other, example in ran if other == name]
        assert examples[0] != 0
        assert examples[1] == 0
        assert 0 not in examples[2:]
        assert len(set(examples)) >= 6


def test_a_visit_whose_few_examples_are_all_rejected_is_no_failure(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REJECTS", "sin2")
    assert (FIRST | SECOND) - {name for name, _ in hunt(pytester)} == {"sin2"}
    assert run_here(pytester, "--gradcheck-minutes=1").parseoutcomes().keys() == {"passed"}


def test_a_test_is_told_the_number_of_its_visit(pytester: pytest.Pytester) -> None:
    hunt(pytester)
    visits = [number for name, number in ran_in(pytester.path / "visits") if name == "sin2"]
    assert visits == [0, 1, 1, 2, 2, 2, 2]


def test_a_seed_repeats_the_run_with_other_examples_in_each_visit(pytester: pytest.Pytester) -> None:
    ran = hunt(pytester, "--hypothesis-seed=3")
    pytester.path.joinpath("reports", "schedule.json").unlink()
    assert hunt(pytester, "--hypothesis-seed=3") == ran
    pytester.path.joinpath("reports", "schedule.json").unlink()
    assert hunt(pytester, "--hypothesis-seed=4") != ran
    assert len({example for name, example in ran if name == "sin2"}) >= 6


def test_what_failed_is_tried_first_in_the_next_run_and_once_in_each(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAILS", "exp1")
    failed = [example for name, example in hunt(pytester) if name == "exp1" and example > 10]
    assert min(failed) == 11  # shrunk at once
    examples = [example for name, example in hunt(pytester) if name == "exp1"]
    assert examples[0] in failed  # kept, and not taken for the smallest example, which is passed over
    monkeypatch.delenv("FAILS")
    examples = [example for name, example in hunt(pytester) if name == "exp1"]
    assert examples[0] in failed
    assert len(examples) > 7


def test_what_failed_and_is_rejected_since_is_no_failure(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAILS", "exp1")
    assert 11 in [example for name, example in hunt(pytester) if name == "exp1"]
    monkeypatch.setenv("REJECTS", "exp1")
    assert run_here(pytester, "--gradcheck-minutes=1").parseoutcomes().keys() == {"passed"}


def test_what_has_passed_is_not_tried_again(pytester: pytest.Pytester) -> None:
    """Hypothesis keeps the examples with the largest targets in its database, too."""
    for _ in range(2):
        names = [name for name, _ in hunt(pytester)]
        assert all(names.count(name) == 7 for name in (*FIRST, *SECOND))


def test_what_draws_nothing_has_a_share_of_the_time_alone(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TAKES", "0.9")
    ran = [name for name, _ in hunt(pytester, minutes=0.3) if name.startswith("record")]
    assert 1 <= len(ran) < 6
    monkeypatch.setenv("TAKES", "0")
    # Those that had to wait come first the next time.
    assert next(name for name, _ in hunt(pytester) if name.startswith("record")) == f"record{len(ran)}"


def test_workers_go_through_the_rounds_side_by_side(pytester: pytest.Pytester) -> None:
    assert hunt(pytester, "-n", "2", "--dist", "worksteal") == []
    parts = [[name for name, _ in ran_in(pytester.path / f"rangw{place}")] for place in range(2)]
    assert sum(map(len, parts)) > 6 + 3 * 7 + 2 * 7 + 7
    for part in parts:
        assert next(name for name in part if name in (*FIRST, *SECOND)) in FIRST


SLOWLY = """
    import time
    from hypothesis import given, strategies as st
    from gradcheck.hunt import monitor

    failed = []

    def drawn(numbers):
        time.sleep(0.05)
        return tuple(numbers)

    @given(st.lists(st.integers(0, 10**6), min_size=3, max_size=9).map(drawn))
    def test_operation(gradcheck_coverage, example):
        if not monitor.current().passes_over(example) and sum(example) % 7 == 3:
            failed.append(time.monotonic())
            monitor.current().fail(example, None)
            raise AssertionError("planted")

    def test_how_long_it_shrank():
        assert time.monotonic() - failed[0] < 5, "it was drawn on, a twentieth of a second each"
"""


def test_when_the_time_for_shrinking_is_over_nothing_more_is_drawn(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(CONFTEST.replace("max_examples=7", "max_examples=70"))
    pytester.makepyfile(SLOWLY)
    result = run_here(pytester, "--gradcheck-shrinking=0.3")
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(["*planted*"])
    assert "REPORT THIS" not in result.stdout.str()
