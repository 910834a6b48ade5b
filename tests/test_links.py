"""Relative links of all Markdown pages lead to files that are there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LINK = re.compile(r"\]\(([^)\s]+)\)")
FOLDERS = ("docs", "scripts", "tests", "beebo_scale")
PAGES = sorted([*ROOT.glob("*.md"), *(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.md"))])


def broken(page: Path) -> list[str]:
    """Targets that do not exist; headings are not looked up."""
    targets = [link.split("#")[0] for link in LINK.findall(page.read_text(encoding="utf-8"))]
    return [link for link in targets if link and "://" not in link and not (page.parent / link).exists()]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page):
    assert broken(page) == []


def test_a_broken_link_is_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("[one](page.md#head) [two](none.md) [three](https://example.org/none.md)")
    assert broken(page) == ["none.md"]
