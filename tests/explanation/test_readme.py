"""The first two screens of the README, and the chapters beside the code, show what happens."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from gradcheck import GradientWrongValue

ROOT = Path(__file__).parents[2]


def blocks(heading: str) -> tuple[str, str]:
    """The first Python block below a heading of the README, and the text block after it."""
    section = (ROOT / "README.md").read_text(encoding="utf-8").split(f"\n## {heading}\n")[1].split("\n## ")[0]
    code = re.search(r"```python\n(.*?)```\n", section, re.DOTALL)
    text = re.search(r"```text\n(.*?)```\n", section, re.DOTALL)
    assert code is not None
    assert text is not None
    return code[1], text[1].rstrip("\n")


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def without_bounds(text: str) -> str:
    """Error bounds differ in their digits from machine to machine."""
    return re.sub(r"\d\.\de-\d\d", "#", text)


def test_the_first_screen() -> None:
    code, text = blocks("In your own tests")
    Path("test_gated.py").write_text(code, encoding="utf-8")
    names = runpy.run_path(str(Path("test_gated.py").resolve()))
    with pytest.raises(GradientWrongValue) as caught:
        names["test_gated"]()
    said = f"{type(caught.value).__module__}.{type(caught.value).__qualname__}: {caught.value}"
    assert without_bounds(said) == without_bounds(text)


def test_the_second_screen(capsys: pytest.CaptureFixture[str]) -> None:
    code, text = blocks("Why is my gradient None, zero, NaN, or only a part?")
    Path("train.py").write_text(code, encoding="utf-8")
    runpy.run_path(str(Path("train.py").resolve()))
    assert capsys.readouterr().out.strip() == text


@pytest.mark.parametrize(
    ("page", "file"),
    [("gradcheck", "energy.py"), ("gradcheck/diagnosis", "nan.py"), ("gradcheck/training", "train.py")],
)
def test_the_examples_of_a_chapter(page: str, file: str, capsys: pytest.CaptureFixture[str]) -> None:
    """All Python blocks of a page are one program, whose output is what the text blocks show."""
    text = (ROOT / page / "README.md").read_text(encoding="utf-8")
    found = re.findall(r"^```(python|text)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    code, output = ("".join(block for kind, block in found if kind == wanted) for wanted in ("python", "text"))
    assert output
    Path(file).write_text(code, encoding="utf-8")
    runpy.run_path(str(Path(file).resolve()))
    assert without_bounds(capsys.readouterr().out) == without_bounds(output)
