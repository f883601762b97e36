"""Links of the pages lead somewhere; where one does not, a line says which."""
import pages
import pytest

from conftest import ROOT


def test_every_link_of_the_pages_leads_somewhere():
    found, _, lines = pages.checked(ROOT)
    assert lines == []
    assert {ROOT / "README.md", ROOT / "docs/guide.md", ROOT / "bench/results/gpu-lab/README.md"} <= set(found)
    assert sum(len(page.links) for page in found.values()) > 100


def test_every_page_is_in_the_site_and_the_readme_is_short():
    listed = (ROOT / "docs/mkdocs.yml").read_text(encoding="utf-8")
    pages_there = [path.relative_to(ROOT) for pattern in ("docs/*.md", "bench/results/**/*.md") for path in ROOT.glob(pattern)]
    assert len(pages_there) > 30 and [path for path in pages_there if f": {path}\n" not in listed] == []
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split("\n")) <= 201


@pytest.fixture
def repository(tmp_path):
    """A README with a link, and a page with one heading."""
    def write(link):
        (tmp_path / "docs").mkdir(exist_ok=True)
        (tmp_path / "docs/guide.md").write_text("# Guide\n\n## On your own device\n")
        (tmp_path / "code.h").write_text("")
        (tmp_path / "README.md").write_text(f"# Name\n\nSee [this]({link}).\n")
        return tmp_path.resolve()
    return write


@pytest.mark.parametrize("link", ["docs/guide.md", "docs/guide.md#on-your-own-device", "#name", "code.h", "https://example.org/x"])
def test_a_right_link(repository, link):
    assert pages.checked(repository(link))[2] == []


@pytest.mark.parametrize("link, words", [
    ("docs/absent.md", "is not there"), ("docs", "is a folder"), ("docs/guide.md#absent", "has no such heading"),
    ("#absent", "has no such heading"), ("code.h#name", "it is no page"), ("../outside.md", "leads out of the repository")])
def test_a_wrong_link_is_named(repository, link, words):
    lines = pages.checked(repository(link))[2]
    assert len(lines) == 1 and lines[0].startswith(f"README.md: link '{link}' ") and words in lines[0] and "expected" in lines[0]


def test_the_copy_has_the_pages_and_what_they_link_to(repository, tmp_path):
    root, folder = repository("code.h"), tmp_path / "copy"
    (folder / "reference").mkdir(parents=True)
    (folder / "reference/index.html").write_text("kept")
    (folder / "stale.md").write_text("")
    found, files, _ = pages.checked(root)
    pages.copy(root, folder, set(found) | files)
    assert sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()) == [
        "README.md", "code.h", "docs/guide.md", "reference/index.html"]
