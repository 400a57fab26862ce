from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from gradcheck import files
from gradcheck.files import FileRefusedError


def test_a_text_is_read_back(tmp_path: Path) -> None:
    path = files.replace(tmp_path / "a.json", "± 1")
    assert files.read(path, 4) == "± 1"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.json"]


def test_a_file_keeps_its_permissions_and_a_new_one_has_those_of_the_umask(tmp_path: Path) -> None:
    for mode in (0o600, 0o664):
        path = tmp_path / f"{mode:o}"
        path.touch()
        path.chmod(mode)
        assert stat.S_IMODE(files.replace(path, "text").stat().st_mode) == mode
    (tmp_path / "link").symlink_to(tmp_path / "600")
    before = os.umask(0o027)
    try:
        for name in ("new", "link"):
            assert stat.S_IMODE(files.replace(tmp_path / name, "text").lstat().st_mode) == 0o640
    finally:
        os.umask(before)


def test_whatever_is_no_small_text_file_is_refused(tmp_path: Path) -> None:
    secret = files.replace(tmp_path / "secret", "text")
    (tmp_path / "link").symlink_to(secret)
    (tmp_path / "nowhere").symlink_to(tmp_path / "missing")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "bytes").write_bytes(b"\x89PNG\xff")
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(2**40)
    for name, complaint in (
        ("link", "symbolic link"),
        ("nowhere", "symbolic link"),
        ("folder", "no regular file"),
        ("pipe", "no regular file"),
        ("bytes", "no text"),
        ("sparse", "1099511627776 bytes; expected at most 100"),
    ):
        with pytest.raises(FileRefusedError, match=f"{name}: .*{complaint}"):
            files.read(tmp_path / name, 100)
    with pytest.raises(FileNotFoundError):
        files.read(tmp_path / "missing", 100)


def test_writing_to_a_link_replaces_the_link_and_not_what_it_points_to(tmp_path: Path) -> None:
    target = files.replace(tmp_path / "target", "mine")
    (tmp_path / "link").symlink_to(target)
    files.replace(tmp_path / "link", "other")
    assert target.read_text() == "mine"
    assert (tmp_path / "link").read_text() == "other"
