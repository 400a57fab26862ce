"""The catalogue of operations, one file a family."""

from __future__ import annotations

from gradcheck.graphs.catalogue import math
from gradcheck.graphs.opspec import OpSpec

CATALOGUE: dict[str, OpSpec] = {}
for _family in (math,):
    for _spec in _family.OPERATIONS:
        if _spec.name in CATALOGUE:
            raise ValueError(f"the catalogue names {_spec.name!r} twice")
        CATALOGUE[_spec.name] = _spec
