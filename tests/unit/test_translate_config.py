"""The configuration of a translated site: only language, title and captions differ."""

from __future__ import annotations

import shutil

import pytest
import yaml

from tools import translate_config
from tools.records import toc_files

PO = """msgid ""
msgstr "Content-Type: text/plain; charset=UTF-8\\n"

msgid "Labs"
msgstr "실습"

#, fuzzy
msgid "Start"
msgstr "시작?"

msgid "Reference"
msgstr ""
"""


@pytest.fixture
def root(tmp_path):
    for name in ("_config.yml", "_toc.yml"):
        shutil.copy(translate_config.ROOT / name, tmp_path)
    catalogue = tmp_path / "locale" / "ko" / "LC_MESSAGES" / "index.po"
    catalogue.parent.mkdir(parents=True)
    catalogue.write_text(PO, encoding="utf8")
    return tmp_path


def written(root, *arguments) -> list[dict]:
    return [yaml.safe_load(path.read_text("utf8")) for path in translate_config.write(*arguments, root=root)]


def test_the_language_and_nothing_else_of_the_configuration_changes(root):
    config, _ = written(root, "ko")
    book = yaml.safe_load((root / "_config.yml").read_text("utf8"))
    own = {"language": "ko", "locale_dirs": ["locale"], "gettext_compact": False}
    assert config["sphinx"]["config"] == book["sphinx"]["config"] | own
    assert config | {"sphinx": None} == book | {"sphinx": None}
    assert config["execute"] == {"execute_notebooks": "off"}  # a bare off would be false
    assert written(root, "ko", "제목")[0]["title"] == "제목"


def test_captions_are_translated_and_documents_stay(root):
    _, toc = written(root, "ko")
    english = yaml.safe_load((root / "_toc.yml").read_text("utf8"))
    assert toc_files(toc) == toc_files(english)
    captions = {a["caption"]: b["caption"] for a, b in zip(english["parts"], toc["parts"], strict=True)}
    assert (captions["Labs"], captions["Start"], captions["Reference"]) == ("실습", "Start", "Reference")


def test_without_a_catalogue_captions_stay_english(root):
    assert written(root, "de")[1] == yaml.safe_load((root / "_toc.yml").read_text("utf8"))


@pytest.mark.parametrize("language", ["korean", "KO", "../x", ""])
def test_what_is_no_code_of_a_language_is_refused(root, language):
    with pytest.raises(ValueError, match="give a code such as ko"):
        translate_config.write(language, root=root)
