"""The pages of the documentation link to files and headings that exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = (
    *("*.md", "findings/*.md", "gradcheck/**/README.md", "reports/README.md", "reports/known/README.md"),
    *("strategies/*.md", "tests/README.md", "tests/benchmarks/README.md", "tests/ecosystems/README.md"),
    "tests/thirdparty/README.md",
)


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives the headings of a page."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-") for heading in headings}


def dead_links(page: Path) -> list[str]:
    """The links of a page to a file that does not exist, or to a heading that its file does not have."""
    found = []
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if "://" not in link and not (target.exists() and (not anchor or anchor in anchors(target))):
            found.append(f"{page}: {link}")
    return found


def test_links_lead_to_what_exists() -> None:
    pages = [page for pattern in PAGES for page in ROOT.glob(pattern)]
    assert len(pages) > 10
    assert [link for page in pages for link in dead_links(page)] == []


def test_a_dead_link_is_found(tmp_path: Path) -> None:
    (tmp_path / "there.md").write_text("# What it is, in short\n```\n# no heading\n```\n")
    links = ("there.md#what-it-is-in-short", "there.md#no-heading", "gone.md", "https://example.org/gone.md", "#here")
    (tmp_path / "page.md").write_text("# Here\n" + "\n".join(f"[one]({link})" for link in links))
    assert dead_links(tmp_path / "page.md") == [
        f"{tmp_path / 'page.md'}: {link}" for link in ("there.md#no-heading", "gone.md")
    ]
