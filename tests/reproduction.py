"""Reproduction scripts, run in this process."""

from __future__ import annotations

import contextlib
import io


def ran(script: str) -> tuple[int, str]:
    """The exit code and the last line of a reproduction script."""
    said, code = io.StringIO(), 0
    with contextlib.redirect_stdout(said):
        try:
            exec(compile(script, "script", "exec"), {"__name__": "__main__"})
        except SystemExit as ending:
            code = int(ending.code or 0)
    return code, said.getvalue().strip().splitlines()[-1]
