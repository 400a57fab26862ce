"""Modules that are loaded from a file with a given text, such as one of an installed package."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any


def loaded(path: Path, text: str, name: str) -> Any:
    """Write the text to a file, and return it as a module of this name, without adding that to sys.modules."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
