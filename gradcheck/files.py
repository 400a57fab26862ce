"""Read files of any origin, and write files whole or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from pathlib import Path

PREFIX, SUFFIX = ".gradcheck-", ".tmp"
"""Prefix and suffix of the names of temporary files."""


class FileRefusedError(OSError):
    """A path is no readable file: a link, a device, a folder, too large or no text; names it and what is expected."""


def refuse_unusual(path: Path, limit: int) -> None:
    """Raises FileRefusedError unless a path is a regular file of at most `limit` bytes, and no symbolic link.

    Raises OSError if there is no such file. A named pipe without a writer, for instance, would block forever.
    """
    about = path.lstat()
    if stat.S_ISLNK(about.st_mode):
        raise FileRefusedError(f"{path}: is a symbolic link; expected a file. Name the file that it points to")
    if not stat.S_ISREG(about.st_mode):
        raise FileRefusedError(f"{path}: is no regular file; expected one")
    if about.st_size > limit:
        raise FileRefusedError(f"{path}: has {about.st_size} bytes; expected at most {limit}")


def read(path: Path, limit: int) -> str:
    """Returns the text of a regular file of at most `limit` bytes of UTF-8.

    Raises FileRefusedError for anything else, and OSError if the file is missing or cannot be read.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     read(replace(Path(folder, "a.txt"), "whole"), 1000)
    'whole'
    """
    refuse_unusual(path, limit)
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0))
    with os.fdopen(handle, "rb") as file:
        content = file.read(limit)
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        raise FileRefusedError(f"{path}: is no text in UTF-8; expected one") from None


def replace(path: Path, content: str) -> Path:
    """Replaces a file by a text in one step (a temporary file beside it, then os.replace), and returns the path.

    Readers and other writers see the old file or the new one, never a part; it keeps the permissions of the old file,
    or gets those of the umask. On failure raises OSError, and leaves neither a temporary file nor a changed one.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     replace(Path(folder, "a.txt"), "whole").read_text()
    'whole'
    """
    handle, temporary = _created_beside(path)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileNotFoundError):
            before = path.lstat().st_mode
            if stat.S_ISREG(before):
                os.chmod(temporary, stat.S_IMODE(before))
        os.replace(temporary, path)
    except BaseException:  # re-raised
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    return path


def _created_beside(path: Path) -> tuple[int, Path]:
    """Creates a file in the same folder; returns descriptor and path. mkstemp's are readable by their owner only."""
    temporary = path.with_name(f"{PREFIX}{path.name[:40]}-{secrets.token_hex(8)}{SUFFIX}")
    return os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666), temporary
