"""Writing a file whole or not at all."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path


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
