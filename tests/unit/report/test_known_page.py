"""The page of all known defects: ranked, complete, and nothing in it but text, one script and links."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable
from typing import Any

import pytest

from gradcheck.defects import known
from gradcheck.defects.records import DEFECT, Defect, Known, TapeDefect
from gradcheck.hunt.report import known_page as page
from tests import forging, slices
from tests.records import COMMITTED, RECORDS, document, from_json

NASTY = "</code></script></style><script>alert(1)</script><img src=x onerror=alert(2)>\"'`\u202e"
NAMES = ("cumprod-zero-order1", "cumprod-zero-order2", "bessel_i0-zero-order2", "pfor-roll-order1", "xlogy-zero-order1")
Parsed = Callable[[str], Any]


def records(*names: str) -> list[Known]:
    return [one for one in RECORDS if one.name in (names or (*NAMES, "tape-watch-while-stopped"))]


def test_every_record_is_there_with_all_that_is_known_of_it(parsed: Parsed) -> None:
    found = parsed(page.known_page(records(), "2.21.0"))
    assert sorted(place["id"] for place in found.named("details") if "id" in place) == sorted(
        (*NAMES, "tape-watch-while-stopped")
    )
    words = " ".join(found.words)
    (cumprod,) = records(NAMES[0])
    assert isinstance(cumprod, Defect)
    assert cumprod.remedy is not None
    for text in (cumprod.title, cumprod.source, cumprod.remedy, "Issue type: Bug", "x = [0.0, 2.0, 3.0]", "9, 0, 0"):
        assert text in words, text
    assert "y = tf.math.cumprod(x, axis=-1, exclusive=False, reverse=False)" in words
    assert cumprod.upstream in [place["href"] for place in found.named("a")]


@pytest.mark.sliced
def test_all_committed_records_make_a_page() -> None:
    every = slices.sliced(known.records(COMMITTED), slices.every(8))
    text = page.known_page(every, "2.21.0")
    assert all(f'<details class="record" id="{one.name}">' in text for one in every)


def test_what_several_scripts_have_is_there_once() -> None:
    entries = list(map(page.entry, records()))
    texts = [text for one in entries for text in (one.script, *one.issue)]
    parts = page.shared_parts(texts)
    for text in texts:
        assert "".join(piece for piece, _ in page.pieces(text, parts)) == text
    found = page.known_page(records(), "2.21.0")
    assert all(found.count(f'id="{name}"') == 1 for name in parts.values())
    assert found.count("def difference(i, element, unit):") < len(entries)


def test_parts_are_numbered_as_they_come_so_that_a_page_is_the_same_in_every_process() -> None:
    texts = ["\n\n".join(letter * 99 for letter in letters) for letters in ("abcdef", "gcahbd")]
    assert [part[0] for part in page.shared_parts(texts)] == ["a", "b", "c", "d"]


@pytest.mark.sliced
def test_the_worst_and_most_common_come_first() -> None:
    told = {"cumprod-zero-order1", "bessel_i1-zero-order1", "pfor-roll-order1"}
    every = known.records(COMMITTED)
    some = slices.sliced(every, lambda _: [*every[::8], *(one for one in every if one.name in told)])
    groups = page.by_cause(map(page.entry, {one.name: one for one in some}.values()))
    entries, heads = [one for group in groups for one in group], [group[0].rank for group in groups]
    assert heads == sorted(heads)
    assert entries[0].record.category == DEFECT
    assert str(entries[0].record.severity) == "silently wrong"
    assert page.common()["matmul"] > page.common()["spence"] > 0
    silent = {one.record.name: one.rank for one in entries}
    assert silent["cumprod-zero-order1"] < silent["bessel_i1-zero-order1"] < silent["pfor-roll-order1"]


def test_the_committed_list_is_that_of_the_records() -> None:
    text = page.known_list(RECORDS)
    again = "python -m gradcheck known page --into reports/known/README.md"
    assert (COMMITTED / "README.md").read_text(encoding="utf-8") == text, f"run: {again}"
    assert all(f"]({one.cause}.json)" in text for one in RECORDS)


def test_records_of_one_cause_stand_together(parsed: Parsed) -> None:
    groups = page.by_cause(map(page.entry, records()))
    assert [one.record.name for one in next(g for g in groups if len(g) > 1)] == list(NAMES[:2])
    assert len(parsed(page.known_page(records(), "2.21.0")).named("section")) == len(groups)


def test_the_only_script_is_the_one_that_the_policy_names(parsed: Parsed) -> None:
    text = page.known_page(records(), "2.21.0")
    (script,) = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = next(
        place["content"] for place in parsed(text).named("meta") if "Content-Security-Policy" in place.values()
    )
    assert f"script-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy
    assert not re.search(r"innerHTML|eval|fetch|import|document\.write", script)


@pytest.mark.parametrize("field", ["title", "source", "remedy", "description"])
def test_nothing_in_a_record_gets_out_of_its_place(parsed: Parsed, field: str) -> None:
    evil = from_json(forging.forged(document(NAMES[0]), field, value=NASTY))
    plain, found = (parsed(page.known_page([one], "2.21.0")) for one in (*records(NAMES[0]), evil))
    assert [tag for tag, _ in found.elements] == [tag for tag, _ in plain.elements]
    assert "\u202e" not in page.known_page([evil], NASTY)


def test_nothing_in_a_program_of_tapes_does_either(parsed: Parsed) -> None:
    evil = from_json(forging.forged(document("tape-watch-while-stopped"), "title", value=NASTY))
    assert isinstance(evil, TapeDefect)
    tags = [
        [tag for tag, _ in parsed(page.known_page([one], "2.21.0")).elements] for one in (evil, *records(evil.name))
    ]
    assert tags[0] == tags[1]


def test_a_link_that_is_no_link_is_no_record() -> None:
    with pytest.raises(ValueError, match="upstream"):
        from_json(forging.forged(document(NAMES[0]), "upstream", value="javascript:alert(1)"))


def test_long_derivatives_are_shortened() -> None:
    assert page.shown(tuple(map(float, range(20)))) == "0, 1, 2, 3, 4, 5, 6, 7, … (20 in all)"
