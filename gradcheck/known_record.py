"""What every record of reports/known holds, whatever it is about."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from gradcheck.graphs.json_form import GraphFormatError, keys, text

RELEASE = re.compile(r"\d+(\.\d+){1,2}")
LINK = re.compile(r"https://[\w./#?=&%-]+")
NAME = re.compile(r"[a-z0-9_-]{1,80}")


@dataclass(frozen=True)
class KnownRecord:
    """Something that TensorFlow does wrong: `source` says how the truth is known, `upstream` links its issue.

    It is recorded for the releases from `since` up to, not including, `until`.
    """

    name: str
    title: str
    source: str
    since: str
    until: str | None
    upstream: str | None

    def covers(self, release: str) -> bool:
        """Whether a release of TensorFlow has it, as far as is known."""
        at = version_of(release)
        return version_of(self.since) <= at and (self.until is None or at < version_of(self.until))


def record_from_json(data: Any, form: str, version: int) -> dict[str, Any]:
    """The fields of a KnownRecord in a document of this format that has their names; raises GraphFormatError."""
    if data["format"] != form or data["version"] != version:
        raise GraphFormatError("$.format", data["format"], f"{form!r}, version {version}")
    releases, upstream = data["releases"], data["upstream"]
    keys(releases, "$.releases", ("from", "until"))
    until = releases["until"]
    return {
        "name": text(data["name"], "$.name", NAME),
        "title": text(data["title"], "$.title"),
        "source": text(data["source"], "$.source"),
        "since": text(releases["from"], "$.releases.from", RELEASE),
        "until": None if until is None else text(until, "$.releases.until", RELEASE),
        "upstream": None if upstream is None else text(upstream, "$.upstream", LINK),
    }


def version_of(release: str) -> tuple[int, ...]:
    """A release of TensorFlow as three numbers, to be compared; what follows a hyphen does not count.

    >>> version_of("2.9") < version_of("2.23.0-dev20260901")
    True
    """
    numbers = [int(part) for part in re.findall(r"\d+", release.partition("-")[0])[:3]]
    return tuple([*numbers, 0, 0, 0][:3])
