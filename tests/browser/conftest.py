"""A browser, pages of real findings, and a record of what happens while one is shown."""

from __future__ import annotations

import dataclasses
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from gradcheck.defects import known
from gradcheck.hunt import blame, trial
from gradcheck.hunt.confirmation import Confirmation
from gradcheck.hunt.environment import current
from gradcheck.hunt.events import Crash, Ending, FindingMade, Finished, KnownReplayed, OperationDone, Started, State
from gradcheck.hunt.finding import GraphFinding
from gradcheck.hunt.json_report import Report, read
from gradcheck.hunt.known_graphs import example_of
from gradcheck.hunt.report.known_page import known_page
from gradcheck.hunt.report.run import merge
from gradcheck.hunt.report.writer import write, write_run
from gradcheck.operations.catalogue import CATALOGUE

ROOT = Path(__file__).parents[2]
SHOWN = ("block_lstm_v2-order1", "xlogy-zero-order1", "bessel_i0-zero-order2", "gather-of-rgb_to_hsv")


@dataclass
class Shown:
    """A page in the browser: the addresses it requested, those that answered, and its console messages."""

    page: Any
    requests: list[str] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium: the one that Playwright brought, or the system's."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install gradcheck[browser]")
    with sync_api.sync_playwright() as playwright:
        place = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
        own = Path(playwright.chromium.executable_path)
        if not own.exists() and place is None:
            pytest.skip("needs a browser: playwright install chromium, or a chromium of the system")
        # Containers run as root, and with little shared memory.
        arguments = ["--disable-dev-shm-usage", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
        started = playwright.chromium.launch(executable_path=None if own.exists() else place, args=arguments)
        yield started
        started.close()


@pytest.fixture(scope="session")
def reports(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The pages of some known defects, as if they had just been found, of a run that found them, and of all known."""
    folder = tmp_path_factory.mktemp("reports")
    pages, found = {}, []
    for defect in known.load(ROOT / "reports" / "known"):
        if defect.name in SHOWN:
            order = defect.signature.order
            checked = trial.run(example_of(defect).graph, (order,))
            wrong = blame.completed(blame.finding_of(checked, order))
            told = Confirmation(1, "x 0 1 <- wrong\nWRONG")
            json, *_, page = write(dataclasses.replace(wrong, confirmation=told), folder)
            pages[defect.name] = page
            found.append(read(json))
    pages["index"] = write_run(merge(_events(found)), folder, {("cumprod", 1): "cumprod-zero-order1"})[0]
    pages["known"] = folder / "known.html"
    pages["known"].write_text(
        known_page(known.load(ROOT / "reports" / "known"), current().tensorflow), encoding="utf-8"
    )
    assert sorted(pages) == sorted([*SHOWN, "index", "known"])
    return pages


def _events(found: list[GraphFinding]) -> list[Any]:
    """Events of a run with made-up counts, which has every colour and state."""
    counts: list[dict[str, int]] = [{"agree": 30}, {"agree": 3}, {"inconclusive": 9}, {"agree": 10, "mismatch": 1}]
    done = [
        OperationDone(name, order, counts[place % 4], 40, place % 3, 1.5, 10.0 ** -(place % 13))
        for place, (name, spec) in enumerate(CATALOGUE.items())
        for order in spec.orders
        if place % 7 and name != "cumprod"
    ]
    states = [
        KnownReplayed(defect.name, State.FIXED if place % 9 == 8 else State.STILL, release, "")
        for release in ("2.20.0", "2.21.0")
        for place, defect in enumerate(known.load(ROOT / "reports" / "known"))
    ]
    crash = Crash.of("matmul", 1, found[0].graph, "killed by SIGABRT")
    start = [Started(current(), "dev", str(seed), f"{seed}/2", ()) for seed in (1, 2)]
    end = [Finished(Ending.COMPLETED, 4000, 61.5, f"{seed}/2") for seed in (1, 2)]
    return [*start, *done, *(FindingMade(Report.of(one)) for one in found), crash, *states, *end]


@pytest.fixture
def show(browser: Any) -> Iterator[Callable[..., Shown]]:
    """Opens a page in a window of its own; `scheme` is light or dark, `width` in pixels."""
    contexts = []

    def opened(path: Path, scheme: str = "light", width: int = 1100) -> Shown:
        context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 800})
        contexts.append(context)
        shown = Shown(context.new_page())
        shown.page.on("request", lambda request: shown.requests.append(request.url))
        shown.page.on("response", lambda response: shown.answers.append(response.url))
        shown.page.on("console", lambda message: shown.complaints.append(message.text))
        shown.page.on("pageerror", lambda error: shown.complaints.append(str(error)))
        shown.page.goto(path.as_uri())
        return shown

    yield opened
    for context in contexts:
        context.close()
