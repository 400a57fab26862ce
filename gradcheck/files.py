"""Reading a file that somebody else may have made, and writing one whole or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from pathlib import Path

PREFIX, SUFFIX = ".gradcheck-", ".tmp"
"""What the name of a temporary file begins and ends with."""


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

    Readers and other writers see the old file or the new one, never a part; its permissions are those of the old one,
    or what the umask leaves a new one. Raises OSError, and leaves neither a temporary file nor a changed one, where
    that fails.

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
    except BaseException:  # raised on
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    return path


def _created_beside(path: Path) -> tuple[int, Path]:
    """A new file in the same folder: its descriptor and its path. Those of mkstemp are readable by their owner only."""
    temporary = path.with_name(f"{PREFIX}{path.name[:40]}-{secrets.token_hex(8)}{SUFFIX}")
    return os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666), temporary
