"""Opt-in pytest hooks (`-p gradcheck.pytest_plugin`): `assert_close` with a project's defaults, and the hunt's options.

Importing this module imports neither TensorFlow nor NumPy. An exception of a failing test with a `finding` attribute (a
gradcheck.hunt.finding.GraphFinding) is run again in a fresh process and written to the folder of reports. Counts that a
test makes in `gradcheck_coverage` become events of the run.
"""

from __future__ import annotations

import math
import os
import secrets
import sys
import time
from collections.abc import Callable, Generator
from contextlib import nullcontext
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gradcheck import runtime
from gradcheck.hunt.configuration import RunConfiguration, Shard, draw_deadline, shrinking
from gradcheck.hunt.running import aggregate, controller
from gradcheck.hunt.running.controller import ORIGINS, SENT, Controller, stopped_by_kill
from gradcheck.hunt.running.project_operations import MARKER, ProjectOperations, add_profile, named, origins_sent
from gradcheck.hunt.running.rounds import VISIT, Spending, drawing, hunts, make, planned, shrunk_within

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from gradcheck.hunt.coverage import Coverage
    from gradcheck.hunt.running.worker import Worker

BEGUN: pytest.StashKey[float] = pytest.StashKey()
CONFIGURATION: pytest.StashKey[RunConfiguration] = pytest.StashKey()
WORKER: pytest.StashKey[Worker] = pytest.StashKey()
STDERR: pytest.StashKey[int] = pytest.StashKey()
SPENDING: pytest.StashKey[Spending] = pytest.StashKey()
DEFAULTS = ("inconclusive", "unconnected", "seconds", "rtol", "atol", "probes", "order")
"""The arguments of assert_close of which [tool.gradcheck] in pyproject.toml may hold a project's defaults."""
PROPERTIES = Path("tests", "properties")
RANDOM = "random"
"""The seed of a run that was given none."""
OPTIONS = (
    ("reports", "DIR", str, None, "folder for reports and events (default: reports/ in the root folder)"),
    ("ops", "NAMES", str, None, "operations to hunt in: comma-separated names or globs, also of your own operations"),
    ("shard", "K/N", str, "1/1", "take the K-th of N shares of all tests"),
    ("minutes", "M", float, None, "minutes to hunt; tests that were not reached come first the next time"),
    ("limit", "SECONDS", float, 120.0, "end a process whose example takes longer (default: 120)"),
    ("shrinking", "SECONDS", float, None, "seconds to shrink a failure (default: 60, or a tenth of the budget)"),
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the --gradcheck-… options."""
    runtime.set_environment()
    group = parser.getgroup("gradcheck")
    for name, metavar, kind, default, text in OPTIONS:
        group.addoption(f"--gradcheck-{name}", metavar=metavar, type=kind, default=default, help=text)
    reach = "record what runs of TensorFlow's gradients, for `python -m gradcheck reach` (needs gradcheck[reach])"
    group.addoption("--gradcheck-reach", action="store_true", help=reach)


def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Notes when the run began: a process may have several runs, one after the other."""
    early_config.stash[BEGUN] = time.time()


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Reads the options, and adds the hooks of a run that hunts, before Hypothesis loads the profile that was named."""
    if config.getoption("--gradcheck-reach") and find_spec("coverage") is None:
        raise pytest.UsageError("--gradcheck-reach counts lines with coverage.py: pip install 'gradcheck[reach]'")
    config.addinivalue_line(
        "markers", f"{MARKER}(name, order, rare=False): the operation of the catalogue that a test is about"
    )
    known = config.rootpath / "reports" / "known"
    if known.is_dir():
        runtime.set_known(known)
    properties = controller.hunts(config, config.rootpath / PROPERTIES)
    hunting = properties or config.getoption("--gradcheck-ops") is not None
    try:
        config.stash[CONFIGURATION] = configuration(config)
        if hunting:
            add_profile(config)
    except ValueError as error:
        raise pytest.UsageError(str(error)) from None
    if hunting:
        operations = ProjectOperations(config, CONFIGURATION, properties)
        config.pluginmanager.register(operations, "gradcheck-operations")
        config.add_cleanup(stopped_by_kill())
    # pytest captures this descriptor later; a hang has to be reported on the one that the user sees.
    config.stash[STDERR] = os.dup(2)
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Controller(config, config.stash[CONFIGURATION], hunting), "gradcheck-controller")


def configuration(config: pytest.Config) -> RunConfiguration:
    """Reads the configuration from the options; a worker takes shared parts from its controller. Raises ValueError."""
    numbers = {name: config.getoption(f"--gradcheck-{name}") for name in ("minutes", "limit", "shrinking")}
    for name, number in numbers.items():
        if number is not None and not 0 < number < math.inf:
            raise ValueError(f"--gradcheck-{name} was {number}; expected a number above 0")
    minutes = numbers["minutes"]
    shared = getattr(config, "workerinput", {}).get(SENT) or {
        "name": f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{os.getpid()}{secrets.token_hex(2)}",
        "deadline": draw_deadline(minutes, config.stash.get(BEGUN, time.time())),
        "schedule": {} if minutes is None else aggregate.load(reports(config) / aggregate.NAME),
    }
    return RunConfiguration(
        folder=reports(config),
        shard=Shard.parse(config.getoption("--gradcheck-shard")),
        operations=named(config),  # those of a project are not registered yet
        limit=numbers["limit"],
        shrink_seconds=numbers["shrinking"] or shrinking(minutes),
        minutes=minutes,
        seed=str(config.getoption("--hypothesis-seed", None) or RANDOM),
        reach=config.getoption("--gradcheck-reach"),
        **shared,
    )


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Gives a worker the run's name, its deadline and the order of its tests, however late it starts."""
    given = node.config.stash[CONFIGURATION]
    node.workerinput[SENT] = {"name": given.name, "deadline": given.deadline, "schedule": dict(given.schedule)}


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Loads test modules, and TensorFlow with them."""
    with runtime.loading():
        return (yield)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselects other shards and operations that were not asked for; with a budget, plans visits to the others."""
    given = config.stash[CONFIGURATION]
    kept: list[pytest.Item] = []
    left: list[pytest.Item] = []
    for item in items:
        marker = item.get_closest_marker(MARKER)
        wanted = given.operations is None or marker is None or marker.args[0] in given.operations
        (kept if wanted and given.shard.takes(item.nodeid) else left).append(item)
    if left:
        config.hook.pytest_deselected(items=left)
    items[:] = kept
    if given.minutes is not None:
        config.stash[SPENDING] = Spending(given.deadline - time.time())
        workers = int(getattr(config, "workerinput", {}).get("workercount", 1))
        items[:] = planned(kept, given.schedule, given.name if given.seed == RANDOM else given.seed, workers)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Passes over tests that are over for a budget."""
    spending = item.config.stash.get(SPENDING, None)
    if spending is None or not spending.passes_over(item, over=_over(item)):
        return None
    item.session._setupstate.teardown_exact(nextitem)
    return True


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Makes a visit to a test that draws, in a run with a budget."""
    if VISIT not in pyfuncitem.stash:
        return None
    given = pyfuncitem.config.stash[CONFIGURATION]
    make(pyfuncitem, worker(pyfuncitem.config).monitor.begin_visit, "" if given.seed == RANDOM else given.seed)
    return True


@pytest.fixture(scope="session")
def assert_close(pytestconfig: pytest.Config) -> Callable[..., None]:
    """`gradcheck.assert_close` with the defaults of [tool.gradcheck] in the project's pyproject.toml."""
    from gradcheck.check import assert_close as without_defaults

    return partial(without_defaults, **project_defaults(pytestconfig.rootpath / "pyproject.toml"))


def project_defaults(path: Path) -> dict[str, Any]:
    """Read [tool.gradcheck] from a pyproject.toml; empty without one. Raises pytest.UsageError for other keys."""
    if not path.is_file():
        return {}
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8")).get("tool", {}).get("gradcheck", {})
    except (ValueError, AttributeError) as error:
        raise pytest.UsageError(f"{path}: [tool.gradcheck] cannot be read: {error}") from None
    unknown = sorted(set(given) - set(DEFAULTS))
    if unknown:
        raise pytest.UsageError(
            f"{path}: [tool.gradcheck] has {', '.join(map(repr, unknown))}; expected some of {', '.join(DEFAULTS)}"
        )
    return dict(given)


@pytest.fixture(scope="session")
def gradcheck_coverage(pytestconfig: pytest.Config) -> Coverage:
    """The counts of this process, for `coverage.count(...)`; the table at the end adds up all workers."""
    return worker(pytestconfig).coverage


@pytest.fixture(scope="session")
def gradcheck_operations(pytestconfig: pytest.Config) -> tuple[str, ...] | None:
    """The operations of --gradcheck-ops; None for all."""
    return pytestconfig.stash[CONFIGURATION].operations


@pytest.fixture(scope="session")
def gradcheck_event(pytestconfig: pytest.Config) -> Any:
    """A function that adds an event (gradcheck.hunt.events) to those of the run."""
    return worker(pytestconfig).journal.write


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Sets one thread per worker once TensorFlow is loaded; skips hunting tests once the time is over."""
    runtime.configure_if_loaded()
    if _over(item):
        pytest.skip(f"the {item.config.stash[CONFIGURATION].minutes:g} minutes are over")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Counts the work of a hunting test; Ctrl-C keeps its findings."""
    if WORKER not in item.config.stash or not hunts(item):
        return (yield)
    began, spending = time.monotonic(), item.config.stash.get(SPENDING, Spending())
    seconds = item.config.stash[CONFIGURATION].shrink_seconds
    with worker(item.config).hunting(), shrunk_within(seconds) if drawing(item) else nullcontext():
        try:
            return (yield)
        except Exception as error:  # from the test: re-raised
            spending.failed.add(item.nodeid)
            _findings(error)  # completed here, so that what they run is recorded and limited
            raise
        finally:
            spending.undrawn += (time.monotonic() - began) * (not drawing(item))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> Generator[None, Any, Any]:
    """Writes the findings that a failing test's exception carries, and sends the controller its counts."""
    report = yield
    if call.when == "setup" and report.skipped and _over(item):
        setattr(report, SENT, {})
    if call.when != "call":
        if report.failed and SPENDING in item.config.stash:
            item.config.stash[SPENDING].failed.add(item.nodeid)
        if call.when == "setup" and hasattr(item.config, "workerinput"):
            setattr(report, ORIGINS, origins_sent())
        return report
    found = _findings(call.excinfo.value) if call.excinfo is not None else []
    if found or (WORKER in item.config.stash and hunts(item)):
        running = worker(item.config)
        for number, (text, properties) in enumerate(running.record_all(found), 1):
            report.sections.append((f"gradcheck finding {number}", text))
            # pytest's JUnit file takes the properties of the report on the teardown.
            item.user_properties.extend(properties)
            report.user_properties.extend(properties)
        setattr(report, SENT, running.send())
    return report


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Writes the last event of this process."""
    if WORKER in session.config.stash:
        from gradcheck.hunt.events import Ending

        over = time.time() >= session.config.stash[CONFIGURATION].deadline
        stopped = exitstatus == pytest.ExitCode.INTERRUPTED
        worker(session.config).finish(
            Ending.INTERRUPTED if stopped else Ending.BUDGET_SPENT if over else Ending.COMPLETED
        )


def pytest_unconfigure(config: pytest.Config) -> None:
    """Restores the process to its earlier state."""
    if WORKER in config.stash:
        config.stash[WORKER].close()
        del config.stash[WORKER]
    if STDERR in config.stash:
        os.close(config.stash[STDERR])
        del config.stash[STDERR]


def worker(config: pytest.Config) -> Worker:
    """This process's part of the run, created when the first test needs it."""
    if WORKER not in config.stash:
        from gradcheck.hunt.running.worker import Worker

        name = getattr(config, "workerinput", {}).get("workerid", "main")
        config.stash[WORKER] = Worker(config.stash[CONFIGURATION], name, config.stash.get(STDERR, 2))
    return config.stash[WORKER]


def reports(config: pytest.Config) -> Path:
    """The folder of the reports: --gradcheck-reports, or else `reports` in the root folder."""
    given = config.getoption("--gradcheck-reports")
    return config.rootpath / "reports" if given is None else config.invocation_params.dir / given


def _over(item: pytest.Item) -> bool:
    return hunts(item) and time.time() >= item.config.stash[CONFIGURATION].deadline


def _findings(error: BaseException) -> list[Any]:
    carried = getattr(error, "finding", None)
    found = [carried] if carried is not None else []
    for inner in getattr(error, "exceptions", ()):
        found += _findings(inner)
    return found
