"""Which modules the package loads in a fresh interpreter, and when."""

from __future__ import annotations

import subprocess
import sys

import gradcheck


def run(source: str) -> str:
    """The output of a source text in a fresh interpreter."""
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_dir_lists_the_names_loaded_or_not() -> None:
    for line in run("import gradcheck; print(*dir(gradcheck)); gradcheck.Finding; print(*dir(gradcheck))").splitlines():
        names = line.split()
        assert set(gradcheck.__all__) <= set(names)
        assert len(names) == len(set(names))


WITHOUT_TENSORFLOW = (
    "import gradcheck",
    "import gradcheck.pytest_plugin",
    "import gradcheck.hunt.coverage",
    "import gradcheck.defects.known",
    "dir(gradcheck); gradcheck.Finding; gradcheck.GradientMismatch",
    "from gradcheck.__main__ import parser; parser()",
)


def test_tensorflow_waits_until_check_brings_it_which_stays_a_function_beside_the_module_of_its_name() -> None:
    """In one process, one after the other: the first that loads it is named, and those after it."""
    loaded = "print({*sys.modules} & {'tensorflow', 'keras'} or 'neither')"
    # The last shows that TensorFlow is there: on a machine without it, all would wait.
    last = "import gradcheck.check; gradcheck.assert_close; print(type(gradcheck.check).__name__)"
    steps = [f"{source}\n{loaded}" for source in WITHOUT_TENSORFLOW]
    *told, kind, there = run("\n".join(["import sys", *steps, last, "print('tensorflow' in sys.modules)"])).splitlines()
    assert dict(zip(WITHOUT_TENSORFLOW, told, strict=True)) == dict.fromkeys(WITHOUT_TENSORFLOW, "neither")
    assert (kind, there) == ("function", "True")
