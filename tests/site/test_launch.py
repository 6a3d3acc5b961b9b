"""Launch links, shared links, 404.html and the recipes of pages/publishing.md."""

import json
import re
import subprocess

import pytest
import yaml
from bs4 import BeautifulSoup
from built_site import documents, html
from PIL import Image
from small_book import make, published

from tools.site import about
from tools.site_pages import ROOT

CONFIG = (ROOT / "_config.yml").read_text("utf8")
RECIPE = (ROOT / "pages" / "publishing.md").read_text("utf8")
ADDRESS = "https://someone.example.org/course"


def soup(path) -> BeautifulSoup:
    return BeautifulSoup(path.read_text("utf8"), "lxml")


@pytest.fixture(scope="module")
def launched(tmp_path_factory):
    """The small book as an instructor publishes it: the block of _config.yml without its #."""
    return make(tmp_path_factory.mktemp("launched"), published(CONFIG, ADDRESS))


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return make(tmp_path_factory.mktemp("plain"), CONFIG)


def links(page: BeautifulSoup) -> list[str]:
    return [link["href"] for link in page.select(".bd-header-article a[href]")]


def test_launch_links_lead_to_the_notebook_on_its_branch(launched):
    found = links(soup(launched / "chapters" / "small.html"))
    assert "https://mybinder.org/v2/gh/someone/course/main?urlpath=lab/tree/chapters/small.ipynb" in found
    assert "https://colab.research.google.com/github/someone/course/blob/main/chapters/small.ipynb" in found
    (hub,) = [address for address in found if address.startswith("https://hub.example.edu/hub/user-redirect/git-pull")]
    assert "repo=https%3A//github.com/someone/course" in hub.replace("://github", "%3A//github")
    assert "branch=main" in hub and "chapters/small.ipynb" in hub


def test_pages_that_are_no_notebooks_have_no_launch_links_but_the_repository(launched):
    found = links(soup(launched / "pages" / "formula.html"))
    assert not [address for address in found if "binder" in address or "colab" in address]
    assert "https://github.com/someone/course" in found


def test_without_a_configuration_nothing_is_launched(plain):
    found = links(soup(plain / "chapters" / "small.html")) + [a for name in documents() for a in links_of(name)]
    assert [address for address in found if "://" in address] == []


def links_of(name: str) -> list[str]:
    return links(soup(html() / f"{name}.html"))


def meta(page: BeautifulSoup) -> dict[str, str]:
    return {tag.get("property") or tag["name"]: tag["content"] for tag in page.select("meta[content]")}


def test_a_page_is_described_by_its_first_sentence(plain):
    described = meta(soup(plain / "chapters" / "small.html"))
    assert described["og:title"] == "A notebook" and described["og:type"] == "article"
    assert described["og:description"] == "Its first paragraph is long enough to describe the page on its own."
    assert described["description"] == described["og:description"]
    assert meta(soup(plain / "index.html"))["og:type"] == "website"


def test_a_formula_is_no_description(plain):
    assert meta(soup(plain / "pages" / "formula.html"))["description"].startswith("The mean of all rows")


def test_the_picture_is_named_only_with_a_full_address(plain, launched):
    without, named = (meta(soup(folder / "chapters" / "small.html")) for folder in (plain, launched))
    assert "og:image" not in without and "og:url" not in without and without["twitter:card"] == "summary"
    assert named["og:image"] == f"{ADDRESS}/_static/social-card.png"
    assert named["og:url"] == f"{ADDRESS}/chapters/small.html"
    assert named["twitter:card"] == "summary_large_image"
    assert (launched / "_static" / "social-card.png").is_file()


def test_the_picture_has_the_size_that_services_ask_for():
    card = ROOT / "assets" / "social-card.png"
    assert Image.open(card).size == (1200, 630) and card.stat().st_size < 60_000


def test_every_page_of_the_book_is_described():
    texts = {name: meta(soup(html() / f"{name}.html")) for name in documents() if not name.startswith("pages/")}
    assert [name for name, found in texts.items() if not 20 < len(found.get("description", "")) < 210] == []
    assert len({found["description"] for found in texts.values()}) == len(texts)


def test_the_commit_is_that_of_the_checkout_and_unknown_elsewhere(plain):
    assert soup(plain / "index.html").select_one(".build-commit").get_text() == "unknown"
    head = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    assert about.commit(str(ROOT)) == (head.stdout.strip() or "unknown")
    assert about.commit(str(ROOT / "pages")) == "unknown"  # a book inside another project


def test_the_lost_page_stands_alone_and_has_the_colours_of_the_book():
    page = soup(html() / "404.html")
    assert page.select("link[rel=stylesheet], script[src], img") == []
    colours = {
        shade
        for shades in json.loads((ROOT / "utils" / "palette.json").read_text()).values()
        for shade in shades.values()
    }
    assert set(re.findall(r"#[0-9a-f]{6}\b", page.select_one("style").get_text())) <= colours
    listed = {name for name, _ in json.loads(page.select_one("#pages").get_text())}
    assert listed == {f"{name}.html" for name in documents()}


def test_the_lost_page_knows_the_address_when_it_is_configured(launched):
    page = soup(launched / "404.html")
    assert page.select_one("a[data-page]")["href"] == f"{ADDRESS}/index.html"
    assert page.select_one("form")["action"] == f"{ADDRESS}/search.html"


def test_the_workflow_runs_by_hand_and_calls_targets_that_exist():
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "publish.yml").read_text("utf8"))
    assert {"workflow_dispatch"} <= set(workflow[True]) <= {"workflow_dispatch", "push"}  # YAML reads "on" as true
    (job,) = workflow["jobs"].values()
    commands = [step["run"] for step in job["steps"] if "run" in step]
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf8"), re.MULTILINE)
    called = [name for text in [*commands, RECIPE] for name in re.findall(r"\bmake ([a-z-]+)\b", text)]
    assert "book" in called and set(called) - {"it"} <= set(targets)
    (upload,) = [step["with"] for step in job["steps"] if "upload-pages" in step.get("uses", "")]
    assert upload["path"] == "_build/html"


def test_binder_gets_the_python_and_the_versions_of_the_book():
    binder = ROOT / ".binder"
    assert (binder / "runtime.txt").read_text().strip() == "python-3.11"
    lines = (binder / "requirements.txt").read_text().splitlines()
    assert lines[-1] == "-r ../requirements.txt" and (binder / "../requirements.txt").is_file()
    (torch,) = [line.removeprefix("# ") for line in lines if line.removeprefix("# ").startswith("torch==")]
    pinned = (ROOT / "requirements.txt").read_text().splitlines()
    assert torch == next(line for line in pinned if line.startswith("torch==")) + "+cpu"
    installed = re.search(r"%pip install -q (.*)", RECIPE)[1].split()
    assert set(installed) <= set(pinned)


def test_no_solution_is_published():
    assert [path for path in html().rglob("*") if "solutions" in path.parts] == []
