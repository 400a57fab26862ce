"""A finding as the terminal mentions it: plain data, which a worker can send to its controller."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from gradcheck.report.discovery import Discovery


def mention(discovery: Discovery, files: Iterable[Path]) -> dict[str, Any]:
    """What was found, and the files that say more."""
    signature = discovery.signature
    return {
        "operation": signature.culprit,
        "order": signature.order,
        "kind": signature.kind.value,
        "name": discovery.name,
        "files": [str(path) for path in files],
    }
