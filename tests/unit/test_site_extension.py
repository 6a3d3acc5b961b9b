"""What the site's extension decides about a page, without a build."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from docutils import nodes

from tools import icons, mathjax, page_speed
from tools.site import about, files


def document(*paragraphs) -> nodes.document:
    made = nodes.document(None, None)
    for parts in paragraphs:
        made += nodes.paragraph("", "", *parts)
    return made


def text(words: str) -> nodes.Text:
    return nodes.Text(words)


LONG = "This sentence is long enough to say on its own what a page is about."


def test_a_description_has_no_label_and_ends_with_a_sentence():
    label = nodes.strong("", "The insight.")
    assert about.description(document([text(""), label, text(f" {LONG} And more.")])) == LONG


def test_short_sentences_are_joined_and_a_long_one_is_cut_at_a_word():
    assert about.description(document([text("Too short."), text(f" {LONG}")])) == f"Too short. {LONG}"
    cut = about.description(document([text("word " * 80)]))
    assert cut.endswith("word …") and len(cut) <= about.LONGEST + 2


def test_formulas_and_remarks_are_passed_over():
    formula = [text("Of "), nodes.math("", "x"), text(f" {LONG}")]
    assert about.description(document(formula, [text("A remark.")], [text(LONG)])) == LONG
    assert about.description(document(formula)) == about.description(None) == ""


def page(body: str | None) -> list[str]:
    names = ["design-tabs.js", "copybutton.js", "vendor/mathjax/tex-chtml-book.js", "present.js"]
    scripts = [SimpleNamespace(filename=name, attributes={}) for name in names]
    scripts.append(SimpleNamespace(filename=None, attributes={"body": "window.MathJax = {}"}))
    context = {
        "body": body,
        "script_files": scripts,
        "css_files": [SimpleNamespace(filename="course.css", attributes={})],
    }
    files.choose(None, "a", "page.html", context, None)
    assert [entry.filename for entry in context["css_files"]] == ["course.css"]
    return [entry.filename or entry.attributes["body"] for entry in context["script_files"]]


@pytest.mark.parametrize(
    ("body", "scripts"),
    [
        ("<p>text</p>", []),
        (None, []),
        ('<div class="highlight-python notranslate"><div class="highlight">', ["copybutton.js"]),
        ('<span class="math notranslate">', ["vendor/mathjax/tex-chtml-book.js", "window.MathJax = {}"]),
        ('<div class="sd-tab-set docutils">', ["design-tabs.js"]),
        ("<p>mathematics, highlight, sd</p>", []),
    ],
)
def test_a_page_keeps_the_scripts_that_it_uses(body, scripts):
    assert sorted(page(body)) == sorted([*scripts, "present.js"])


def test_icon_rules_are_read_and_nothing_else():
    css = r'.fa-sun:before{content:"\f185"}.fa-house:before,.fa-home:before{content:"\f015"}.fa-lg{font-size:1.25em}'
    assert icons.known(css) == {"sun": "\uf185", "house": "\uf015", "home": "\uf015"}
    assert icons.RULE.sub("", css) == ".fa-lg{font-size:1.25em}"


def test_a_provider_of_repositories_has_an_icon():
    assert {"github", "gitlab", "bitbucket", "rocket", "person-chalkboard"} <= icons.named()


@pytest.fixture
def package(tmp_path) -> Path:
    for name in ["startup", *mathjax.PARTS]:
        (tmp_path / "es5" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "es5" / f"{name}.js").write_text(f"/*{name}*/")
    (tmp_path / "package.json").write_text('{"version": "3.2.2"}')
    return tmp_path


def test_mathjax_starts_before_its_parts_and_knows_that_they_are_there(package):
    made = mathjax.combine(package)
    places = [made.index(part) for part in ["/*startup*/", "preLoad('core', ", "/*core*/", "/*a11y/assistive-mml*/"]]
    assert places == sorted(places) and "'output/chtml/fonts/tex.js'" in made


def test_another_version_of_mathjax_is_refused(package):
    (package / "package.json").write_text('{"version": "4.0.0"}')
    with pytest.raises(ValueError, match=r"MathJax 4\.0\.0: the site is made for version 3"):
        mathjax.combine(package)


def test_an_unknown_page_is_named_before_anything_is_measured(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(page_speed, "HTML", tmp_path)
    assert page_speed.main([]) == 1
    assert "run make book first" in capsys.readouterr().err
    (tmp_path / "searchindex.js").touch()
    assert page_speed.main(["chapters/99"]) == 1
    assert "no such page: chapters/99" in capsys.readouterr().err


def test_the_server_counts_what_it_sends(tmp_path):
    import gzip
    from urllib.request import urlopen

    (tmp_path / "a.js").write_text("x" * 1000)
    (tmp_path / "a.webp").write_bytes(b"\0" * 1000)
    with page_speed.served(tmp_path) as (address, sent):
        assert gzip.decompress(urlopen(f"{address}/a.js").read()) == b"x" * 1000
        assert urlopen(f"{address}/a.webp").read() == b"\0" * 1000
    assert [name for name, _, _ in sent] == ["/a.js", "/a.webp"]
    assert sent[0][1] < 100 and sent[0][2] == sent[1][1] == sent[1][2] == 1000
