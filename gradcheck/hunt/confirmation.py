"""Runs a reproduction script in a fresh process: the last confirmation before a finding is shown."""

from __future__ import annotations

import os
import site
import subprocess
import sys
import tempfile
from pathlib import Path

from gradcheck.documents import Document

LIMIT = 20_000
VERDICTS = {"RIGHT": 0, "WRONG": 1, "INCONCLUSIVE": 2}
"""The last line of a script that finished, and its exit code."""


class Confirmation(Document, frozen=True):
    """The result of a run of the script in a fresh process.

    `returncode` is 1 where the derivative is still wrong, 0 where it is right, 2 where the script could not tell, None
    where its time was over. `output` is the text that it printed, at most 20,000 characters.
    """

    returncode: int | None
    output: str

    @property
    def decided(self) -> bool:
        """Whether the script finished; otherwise the fresh process says nothing about the derivative."""
        last = self.output.rpartition("\n")[2]
        return last in VERDICTS and self.returncode == VERDICTS[last]

    @property
    def confirmed(self) -> bool:
        """Whether the fresh process found the derivative wrong, too."""
        return self.returncode == 1 and self.output.endswith("WRONG")


def confirm(script: str, timeout: float = 120.0) -> Confirmation:
    """Runs the text of a script in a fresh interpreter, as isolated as `-I` makes it, and waits at most `timeout`
    seconds.

    The environment's flags (TF_ENABLE_ONEDNN_OPTS and the like) are passed on; Python's own search paths are not, but
    for the user's site where this process has it, too: TensorFlow may be installed there, and `-I` leaves it out.
    """
    kept = {"PYTHONUSERBASE"} if site.ENABLE_USER_SITE else set()
    isolated = [] if site.ENABLE_USER_SITE else ["-I"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON") or name in kept}
    with tempfile.TemporaryDirectory(prefix="gradcheck-") as folder:
        path = Path(folder, "reproduction.py")
        path.write_text(script, encoding="utf-8")
        try:
            done = subprocess.run(
                [sys.executable, *isolated, str(path)],
                cwd=folder,
                env=environment,
                timeout=timeout,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Confirmation(None, f"no answer within {timeout:g} s")
    has_verdict = done.returncode in (0, 1, 2) and "Traceback" not in done.stderr
    output = done.stdout if has_verdict else f"{done.stdout}\n{done.stderr}"
    return Confirmation(done.returncode, output.strip()[-LIMIT:].replace(folder, "."))
