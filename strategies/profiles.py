"""Hypothesis profiles: `dev` for everyday runs, `ci` always the same, `nightly` a long hunt."""

from __future__ import annotations

from pathlib import Path

from hypothesis import HealthCheck, Phase, settings
from hypothesis.database import DirectoryBasedExampleDatabase

DEFAULT = "dev"
EXAMPLES = {"dev": 10, "ci": 10, "nightly": 1000}
# Without Phase.explain: the blame names the culprit, and explaining costs as much again as shrinking.
PHASES = (Phase.explicit, Phase.reuse, Phase.generate, Phase.target, Phase.shrink)


def register(folder: Path) -> None:
    """Registers the three profiles; `dev` and `nightly` keep their failures in one database below `folder`.

    They descend from Hypothesis's own defaults and not from the active profile: where the variable CI is set, that is
    Hypothesis's `ci`, which is derandomised and keeps nothing, and a nightly hunt would find the same every night.
    """
    database = DirectoryBasedExampleDatabase(folder / "examples")
    for name, examples in EXAMPLES.items():
        settings.register_profile(
            name,
            parent=settings.get_profile("default"),
            max_examples=examples,
            deadline=None,
            phases=PHASES,
            suppress_health_check=[HealthCheck.too_slow],
            derandomize=name == "ci",
            database=None if name == "ci" else database,
            print_blob=True,
        )
