"""The records of the tables in `hunted/`: what they call right is what an oracle in mpmath gives."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest

from tests.ecosystems.oracles import ORACLES

pytestmark = pytest.mark.exhaustive

FILES = sorted((Path(__file__).parent / "hunted" / "reports" / "known").glob("*.json"))
RECORDS = {record["name"]: record for path in FILES for record in json.loads(path.read_text())["examples"]}
DIGITS = 1e-9


def arrays(tensors: list[dict[str, Any]]) -> list[Any]:
    """Arrays of mpmath's numbers."""
    return [np.array([mpmath.mpf(value) for value in one["values"]], object).reshape(one["shape"]) for one in tensors]


def derivative(record: dict[str, Any]) -> list[float]:
    """The derivative that a record is about, by its oracle, in fifty digits."""
    (node,) = record["graph"]["nodes"]
    inputs, (weights,) = arrays(record["graph"]["inputs"]), arrays([record["cotangent"]])
    assert node["parents"] == list(range(len(inputs)))
    direction = arrays(record["direction"])
    found = []
    for number, given in enumerate(inputs):
        for index in np.ndindex(given.shape):

            def moved(t: Any, s: Any = 0, *, number: int = number, index: Any = index) -> Any:
                at = [x + s * d for x, d in zip(inputs, direction, strict=True)] if direction else list(inputs)
                at[number] = at[number].copy()
                at[number][index] += t
                return np.sum(weights * ORACLES[node["op"]](*at))

            found.append(mpmath.diff(moved, (0, 0), (1, 1)) if direction else mpmath.diff(moved, 0))
    return [float(mpmath.re(one)) for one in found]


@pytest.mark.parametrize("name", RECORDS)
def test_what_is_called_right_is_what_an_oracle_gives(name: str) -> None:
    record = RECORDS[name]
    with mpmath.workdps(50):
        right = derivative(record)
    told = [number for part in record["right"] for number in part]
    np.testing.assert_allclose(told, right, rtol=DIGITS, atol=DIGITS)
    given = [math.nan if part is None else float(number) for part in record["given"] for number in part or [0]]
    assert not given or not np.allclose(given, right, rtol=1e-6, atol=1e-6)


def test_there_are_records_and_no_oracle_without_one() -> None:
    assert {record["signature"]["operation"] for record in RECORDS.values()} == set(ORACLES)
