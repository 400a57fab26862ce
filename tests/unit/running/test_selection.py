from __future__ import annotations

import pytest

from gradcheck.hunt.configuration import selected

NAMES = ("exp", "sin", "sinh", "reduce_sum", "reduce_prod")


@pytest.mark.parametrize(
    ("patterns", "names"),
    [
        ("sin", ("sin",)),
        ("sin,exp", ("exp", "sin")),
        ("sin* , reduce_p*", ("sin", "sinh", "reduce_prod")),
        ("*", NAMES),
        ("reduce_[sx]um", ("reduce_sum",)),
    ],
)
def test_names_and_globs(patterns: str, names: tuple[str, ...]) -> None:
    assert selected(patterns, NAMES) == names


@pytest.mark.parametrize(
    ("patterns", "message"),
    [
        ("sinn", "'sinn' matches none of the catalogue; did you mean 'sin'"),
        ("sin,reduce_su", "did you mean 'reduce_sum'"),
        ("q*", "'q\\*' matches none"),
        ("SIN", "'SIN' matches none"),
        ("", "expected names or globs"),
        (" , ", "expected names or globs"),
    ],
)
def test_an_unknown_name_suggests_the_nearest(patterns: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        selected(patterns, NAMES)
