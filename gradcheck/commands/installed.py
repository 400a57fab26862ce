"""What the commands find here: TensorFlow's release, and the known defects."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

from gradcheck import known, runtime
from gradcheck.commands.answer import CommandError
from gradcheck.defect import Defect
from gradcheck.known import Known

PACKAGES = ("tensorflow", "tf-nightly", "tensorflow-cpu", "tf-nightly-cpu", "tensorflow-macos", "tensorflow-intel")


def tensorflow() -> str:
    """TensorFlow's release, once it is loaded, with one thread; for commands that compute."""
    runtime.configure()
    import tensorflow as tf

    return str(tf.__version__)


def release() -> str:
    """The same without loading it (five seconds), where a package says so."""
    for name in PACKAGES:
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return tensorflow()


def known_folder(named: Path | None) -> Path:
    """The folder of the known defects, `named` or the nearest; raises CommandError where there is none."""
    folder = named if named is not None else known.home()
    if folder is None:
        raise CommandError("no folder reports/known here or above; name one with --folder DIR")
    if not folder.is_dir():
        raise CommandError(f"{folder}: no such folder; name the folder of the known defects with --folder DIR")
    return folder


def known_defects(folder: Path | None = None) -> tuple[Defect, ...]:
    """The wrong derivatives of a folder, or of the nearest; raises CommandError where a file cannot be read."""
    return tuple(one for one in known_records(folder) if isinstance(one, Defect))


def known_records(folder: Path | None = None) -> tuple[Known, ...]:
    """All that is known there, what tapes do as well; raises CommandError where a file cannot be read."""
    try:
        return known.records(folder)
    except known.KnownDefectError as error:
        raise CommandError(str(error)) from None
