"""Reading a file that somebody else may have made, and writing one whole or not at all."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from pathlib import Path


class FileRefusedError(OSError):
    """A path is no file to read: a link, a device, a folder, too large or no text; names it and what is expected."""


def refuse_unusual(path: Path, limit: int) -> None:
    """Raises FileRefusedError unless a path is a regular file of at most `limit` bytes, and no symbolic link.

    Raises OSError where there is no such file. A named pipe, say, to which nobody writes would be waited for forever.
    """
    about = path.lstat()
    if stat.S_ISLNK(about.st_mode):
        raise FileRefusedError(f"{path}: is a symbolic link; expected a file. Name the file that it points to")
    if not stat.S_ISREG(about.st_mode):
        raise FileRefusedError(f"{path}: is no regular file; expected one")
    if about.st_size > limit:
        raise FileRefusedError(f"{path}: has {about.st_size} bytes; expected at most {limit}")


def read(path: Path, limit: int) -> str:
    """The text of a regular file of at most `limit` bytes of UTF-8.

    Raises FileRefusedError for anything else, and OSError where the file is missing or cannot be read.

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
    """Puts a text at a path in one step (a temporary file beside it, then os.replace), and returns the path.

    Readers and other writers see the old file or the new one, never a part. Raises OSError, and leaves neither a
    temporary file nor a changed one, where that fails.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     replace(Path(folder, "a.txt"), "whole").read_text()
    'whole'
    """
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name[:40]}-", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    return path
