"""Weights of pages, counted by hand."""

import pytest

from tools import page_weight

PAGE = """<html><head><link rel="stylesheet" href="_static/a.css?v=1"/><link rel="next" href="other.html"/>
<noscript><img src="_static/never.png"></noscript><script src="_static/a.js"></script>
<script src="https://example.org/x.js"></script></head><body>
<article class="bd-article">{content}</article></body></html>"""


@pytest.fixture
def site(tmp_path):
    for name, size in {"a.js": 500, "b.css": 300}.items():
        (tmp_path / "_static").mkdir(exist_ok=True)
        (tmp_path / "_static" / name).write_text("x" * size)
    (tmp_path / "_static" / "a.css").write_text('@import "b.css"; p {}')
    (tmp_path / "_images").mkdir()
    (tmp_path / "_images" / "p.webp").write_bytes(bytes(range(256)) * 4)
    return tmp_path


def write(site, content):
    path = site / "index.html"
    path.write_text(PAGE.format(content=content))
    return path


def test_files_are_those_a_browser_asks_for(site):
    path = write(site, '<img src="_images/p.webp"><img src="data:image/svg+xml;base64,AA=="><a href="b.html">b</a>')
    names = {file.relative_to(site).as_posix() for file in page_weight.files(path)}
    assert names == {"index.html", "_static/a.css", "_static/b.css", "_static/a.js", "_images/p.webp"}


def test_own_weight_is_the_text_and_the_pictures_as_they_are(site):
    assert page_weight.own(write(site, "")) == 0
    assert 1024 < page_weight.own(write(site, '<img src="_images/p.webp">')) < 1024 + 60
    words = " ".join(map(str, range(2000)))
    text = page_weight.own(write(site, words))
    assert 0.8 * page_weight.compressed(words.encode()) < text < 1.2 * page_weight.compressed(words.encode())


def test_text_counts_compressed_and_pictures_do_not(site):
    assert page_weight.sent(site / "_static" / "a.js") < 50
    assert page_weight.sent(site / "_images" / "p.webp") == 1024


def test_an_explorer_raises_the_limit_and_a_curve_does_not(site):
    assert page_weight.limit(write(site, "<curve-explorer>")) == page_weight.LIMIT
    assert page_weight.limit(write(site, "<rank-explorer role=group>")) == page_weight.LIMIT_EXPLORER


def test_a_page_without_an_article_is_refused(site):
    (site / "index.html").write_text("<html></html>")
    with pytest.raises(ValueError, match="0 articles, expected one"):
        page_weight.own(site / "index.html")
