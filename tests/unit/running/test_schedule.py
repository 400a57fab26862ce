from __future__ import annotations

from pathlib import Path

import pytest

from gradcheck.hunt.running.aggregate import load, save


def test_without_a_file_no_test_waits_longer_than_another(tmp_path: Path) -> None:
    assert load(tmp_path / "schedule.json") == {}


def test_each_run_gives_its_tests_a_later_number(tmp_path: Path) -> None:
    path = tmp_path / "reports" / "schedule.json"
    save(path, ["a", "b"])
    save(path, ["c"])
    save(path, ["a"])
    assert load(path) == {"a": 3, "b": 1, "c": 2}
    waiting = sorted(["a", "b", "c", "new"], key=lambda name: load(path).get(name, 0))
    assert waiting == ["new", "b", "c", "a"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"format": "gradcheck schedule", "version": 2, "last_runs": {}}',
        '{"format": "gradcheck schedule", "version": 1, "last_runs": {"a": "1"}}',
        '{"format": "gradcheck schedule", "version": 1, "last_runs": {"a": true}}',
        '{"format": "gradcheck schedule", "version": 1}',
        "[" * 100_000,
    ],
)
def test_a_damaged_file_says_what_to_do_and_is_left_alone(tmp_path: Path, text: str) -> None:
    path = tmp_path / "schedule.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"not a schedule of this project.*Delete the file"):
        load(path)
    with pytest.raises(ValueError, match="Delete the file"):
        save(path, ["a"])
    assert path.read_text() == text
