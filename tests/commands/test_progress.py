"""The progress bar of a long check, on a terminal of its own."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import threading

SLOW = """
import os
import sys
import time
import tensorflow as tf
import gradcheck
from gradcheck import progress

progress.DELAY, waits = 0.01, True


def slow(x):
    check = progress.RUNNING.get()
    if waits and check.stage:
        while check.live is None:
            time.sleep(0.01)
        check.live.refresh()
    time.sleep(0.01)
    return x**3 if float(x) < 9 else x  # code that reads values is not traced


"""

LONG = """
print(gradcheck.check(slow, tf.constant(1.5, tf.float64), order=2).verdict)
print(gradcheck.explain(slow, tf.constant(1.5, tf.float64)).verdict)
"""

SHORT = """
waits = False

def check(where):
    print(f"<{where}>", file=sys.stderr)
    print(where, gradcheck.check(slow, tf.constant(1.5, tf.float64)).verdict)

os.environ["CI"] = "true"
check("in CI")
del os.environ["CI"]
os.environ["TERM"] = "dumb"
check("on a dumb terminal")
os.environ["TERM"] = "xterm"
import keras
sys.modules["rich.live"] = None
check("without rich")  # the timer tries, and nothing comes of it
"""


def on_a_terminal(code: str) -> tuple[str, str]:
    """The output of a script, and the text that a terminal at its stderr shows."""
    master, slave = pty.openpty()
    kept = {name: value for name, value in os.environ.items() if name not in ("CI", "NO_COLOR")}
    settings = {**kept, "TF_CPP_MIN_LOG_LEVEL": "3", "TERM": "xterm", "COLUMNS": "120"}
    shown: list[bytes] = []

    def read() -> None:
        while True:
            try:
                part = os.read(master, 4096)
            except OSError:  # the other end is closed
                return
            if not part:
                return
            shown.append(part)

    reader = threading.Thread(target=read)
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=slave, env=settings)
    os.close(slave)
    reader.start()
    printed, _ = process.communicate()
    reader.join()
    os.close(master)
    assert process.returncode == 0, b"".join(shown).decode()
    return printed.decode(), b"".join(shown).decode()


def test_a_long_check_shows_a_bar_but_not_in_ci_on_a_dumb_terminal_or_without_rich() -> None:
    printed, shown = on_a_terminal(SLOW + LONG + SHORT)
    with_a_bar, *_ = shown.partition("<in CI>")
    for stage in ("order 1", "derivative 1 of 1"):
        assert re.search(rf"gradcheck of slow, {stage}: \d+ evaluations, \d+:\d\d", with_a_bar), stage
    places = re.findall(r"<(.+?)>([^<]*)", shown.removeprefix(with_a_bar))
    assert printed == "agree\nagree\n" + "".join(f"{where} agree\n" for where, _ in places)
    assert [where for where, _ in places] == ["in CI", "on a dumb terminal", "without rich"]
    assert [where for where, text in places if "gradcheck of" in text] == []
    assert "Traceback" not in shown
