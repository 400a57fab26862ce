"""Regions in their earlier form, with a condition on groups of elements: still read, for one release."""

from __future__ import annotations

import json
from typing import Any

from gradcheck.documents import Description, DocumentError
from gradcheck.operations.catalogue import special_set

GROUPS = (
    *("argument", "along", "elements", "windows", "segments", "indices"),
    *("minus", "plus", "where", "pixels", "sides"),
)
"""The fields that said which elements a condition was about."""
DEFAULTS = {"argument": 0, "along": None, "elements": "all"}
OF_ARGUMENT = {
    "empty": "no element",
    "zero": "zero",
    "tie": "tie",
    "one": "one",
    "single": "a single element",
    "several": "several elements",
    "not real": "not real",
}
"""Conditions on a whole argument, and what the sets of every operation call them."""
OF_OPERATION = """
all elements equal < equal, along "axis"
all elements zero < zeros only
all entries up to 1e-2 < small | small, along [-2, -1]
all entries up to 1e-4 < minute, along [-2, -1]
both arguments zero < zero, where {"1": "zero"}
close singular values < close singular values, along [-2, -1]
coinciding points < zeros only, along -1, minus 1
constant row or column < equal, along -1 | equal, along -2 | zeros only, along -1 | zeros only, along -2
edge of a box on a pixel of a slope < monotone, argument 1, pixels 0
empty segment < gaps, indices ["ids"]
equal arguments < zero, minus 1
equal eigenvalues < equal eigenvalues, along [-2, -1]
equal magnitudes, not zero < zero, minus 1, where {"0": "not zero"} | zero, plus 1, where {"0": "not zero"}
equal singular values < equal singular values, along [-2, -1]
exp of argument 1 overflows < over 709, argument 1
exp of argument 1 overflows in float32 < over 88, argument 1
exp of the imaginary part overflows < over 709
exp overflows in float32 < over 88
filter of width 1 < single, argument 1, along -3
flat image in float32 < equal in float32, along [-3, -2, -1] | single, along [-3, -2, -1]
four samples that cancel < cancels, along [-2], windows [4]
index given twice < tie, indices ["first", "second"]
labels of one class < equal, indices ["labels"]
largest twice in a window < largest twice, along [-4, -3, -2], windows [1, 2, 2]
largest twice in a window < largest twice, along [-4, -3, -2], windows [2, 1, 2]
largest twice in a window < largest twice, along [-4, -3, -2], windows [2, 2, 2]
magnitude of 1e4 or more < large
magnitude over 5000 < over 5000
more than two factors, not real < over 2, not real, along "axis" | over 2, not real, along -1
more than two factors, not real < over 2, not real, along [-2, -1] | over 2, not real, along [-3, -2, -1]
more than two rows and columns < over 2 rows and columns, along [-2, -1]
not real in argument 0 < not real, along [-2, -1]
one element along axis < single, along "axis" | single, along -1
one or two zeros among several < 1 or 2 zeros of several, along "axis" | 1 or 2 zeros of several, along -1
partitions of unequal size < uneven, indices ["partitions"]
probability of the label rounds to 1 < over 36, where {"0": "negative"} | over 36, where {"0": "positive"}
running maximum of magnitude 1e4 or more < large, along "axis", elements "running largest from the last"
running maximum of magnitude 1e4 or more < large, along "axis", elements "running largest"
running maximum of magnitude 1e4 or more < large, along -1, elements "running largest from the last"
running maximum of magnitude 1e4 or more < large, along -1, elements "running largest"
scalar in argument 1 < always, argument 1
several elements along axis < several, along -1
several elements along each axis < always, sides 2
several factors < several, along "axis" | several, along "axis", elements "all but the first"
several factors < several, along "axis", elements "all but the last" | several, along -1
several factors < several, along -1, elements "all but the first" | several, along -1, elements "all but the last"
several factors, not real < several, not real, along "axis"
several factors, not real < several, not real, along "axis", elements "all but the first"
several factors, not real < several, not real, along "axis", elements "all but the last" | several, not real, along -1
several factors, not real < several, not real, along -1, elements "all but the first"
several factors, not real < several, not real, along -1, elements "all but the last"
several rows in a segment < several, segments "ids"
several rows in a segment, not real < several, not real, segments "ids"
singular < singular, along [-2, -1]
singular values far apart < far singular values, along [-2, -1]
two zeros in a segment < 2 zeros, segments "ids"
unequal arguments < not zero, minus 1
vanishing singular values < vanishing singular values, along [-2, -1]
zero beside a positive slope < zero, where {"1": "positive"}
zero factor < zero, along "axis" | zero, along "axis", elements "all but the first"
zero factor < zero, along "axis", elements "all but the last" | zero, along -1
zero factor < zero, along -1, elements "all but the first" | zero, along -1, elements "all but the last"
zero matrix < zeros only, along [-2, -1]
zero vector < zeros only, along "axis"
zero vector in argument 1 < zeros only, argument 1, along "axis"
"""
"""The names of special sets of operations, and the conditions, with the fields beside them, that stood for these."""


def in_this_form(data: Any, place: str = "$") -> Any:
    """A file of known defects as it was parsed, with the regions in the form of today; raises DocumentError."""
    if not isinstance(data, dict):
        return data
    lists = ((name, data.get(name), form) for name, form in (("examples", in_this_form), ("regions", _region)))
    return data | {
        name: [form(one, f"{place}.{name}[{number}]") for number, one in enumerate(given)]
        for name, given, form in lists
        if isinstance(given, list)
    }


def _region(data: Any, place: str) -> Any:
    if not isinstance(data, dict) or "condition" not in data:
        return data
    condition = data["condition"]
    groups = {name: data[name] for name in GROUPS if name in data and data[name] != DEFAULTS.get(name)}
    kept = {name: value for name, value in data.items() if name not in (*GROUPS, "condition")}
    if condition == "always" and not groups:
        return kept
    if condition in [*OF_ARGUMENT] and not groups.keys() - {"argument"}:
        return kept | {"set": f"{OF_ARGUMENT[condition]} in argument {groups.get('argument', 0)}"}
    told = ", ".join([str(condition), *(f"{name} {json.dumps(value)}" for name, value in groups.items())])
    for name, _, earlier in (line.partition(" < ") for line in OF_OPERATION.splitlines()):
        if told in earlier.split(" | ") and special_set(str(data.get("op")), name) is not None:
            return kept | {"set": name}
    raise DocumentError(f"{place}.condition", Description(told), "`set`, the name of a special set of the operation")
