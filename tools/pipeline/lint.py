"""Rules for the notebooks of the book (design: how a chapter is built). Each rule returns complaints, in words."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator

from nbformat import NotebookNode

MAX_LINES = 25
CELLS = range(25, 46)
SIZE, SIZE_LARGE = 1e6, 2.5e6  # bytes; the larger one where the metadata says explorer: 128
SECONDS, ALL_SECONDS = 60, 12 * 60  # of a processor: one notebook, all of them
PEAK_MB = 4096
SECTIONS = (
    "Objectives",
    "Where this breaks",
    "Since 2021",
    "Exercises",
    "Quiz",
    "Verdicts",
    "Takeaways",
    "References",
)
ASSESSED = ("Objectives", "Rubric", "References")  # sections of an assessment, beside its own
ABCD = ("Audience", "Behaviour", "Condition", "Degree")
UNCOMPARED = ("nbval-ignore-output", "nbval-skip")
IMAGES = ("image/png", "image/jpeg", "image/svg+xml")
MACHINE_PATH = re.compile(r"(/home/|/root/|/Users/|/work/|/tmp/|[A-Z]:\\\\Users|site-packages)")


def code_cells(notebook: NotebookNode) -> Iterator[tuple[int, NotebookNode]]:
    """(number from 1, cell) of each code cell."""
    return enumerate((cell for cell in notebook.cells if cell.cell_type == "code"), start=1)


def _tree(source: str) -> ast.Module:
    return ast.parse(re.sub(r"^\s*[!%].*$", "", source, flags=re.MULTILINE))


def code(notebook: NotebookNode) -> list[str]:
    """Short cells without shell commands, star imports, path surgery, addresses or unchecked outputs."""
    found = []
    for number, cell in code_cells(notebook):
        where, source = f"code cell {number}", cell.source
        if (lines := len(source.splitlines())) > MAX_LINES:
            found.append(f"{where} has {lines} lines, at most {MAX_LINES}")
        if re.search(r"^\s*(!|%)", source, re.MULTILINE):
            found.append(f"{where} runs a shell or magic command")
        if re.search(r"\bimport \*", source):
            found.append(f"{where} imports everything from a module (*)")
        if "sys.path" in source:
            found.append(f"{where} touches sys.path")
        if re.search(r"https?://", source):
            found.append(f"{where} holds a web address")
        if unchecked := set(UNCOMPARED) & set(cell.metadata.get("tags", [])):
            found.append(f"{where} has the tag {', '.join(unchecked)}: its output would not be compared")
        if re.search(r"#\s*NBVAL_", source):
            found.append(f"{where} holds a comment that switches nbval's comparison")
    return found


def text(notebook: NotebookNode) -> list[str]:
    """No line of text that MyST reads otherwise: a comment (%), or a list that begins in the middle of a paragraph."""
    found = []
    for cell in (cell for cell in notebook.cells if cell.cell_type == "markdown"):
        lines = cell.source.splitlines()
        found += [f"a line begins with %, so the page would leave it out: {each}" for each in lines if each[:1] == "%"]
        for before, each in zip(lines, lines[1:], strict=False):
            if re.match(r"1\. ", each) and re.match(r"[^\s:#-]", before):
                found.append(f"a line of a paragraph begins with 1., so the page would begin a list: {each}")
    return found


def outputs(notebook: NotebookNode) -> list[str]:
    """Every code cell was run, none failed or wrote to stderr, none shows a path of the machine it ran on."""
    found = []
    for number, cell in code_cells(notebook):
        where = f"code cell {number}"
        if cell.execution_count != number:
            found.append(f"{where} has execution count {cell.execution_count}")
        for output in cell.outputs:
            if output.output_type == "error":
                found.append(f"{where} stopped with {output.ename}")
            if output.get("name") == "stderr":
                found.append(f"{where} writes to stderr")
            text = json.dumps({k: v for k, v in output.get("data", {}).items() if k not in IMAGES}, ensure_ascii=False)
            text += output.get("text", "")
            if re.search(r" at 0x[0-9a-f]{6,}", text):
                found.append(f"{where} shows the address of an object (end its last line with a semicolon)")
            if match := MACHINE_PATH.search(text):
                found.append(f"{where} shows a path of this machine ({match.group()})")
    return found


def images(cell: NotebookNode) -> int:
    """How many pictures a cell shows."""
    return sum(any(kind in output.get("data", {}) for kind in IMAGES) for output in cell.get("outputs", []))


def explorers(cell: NotebookNode) -> int:
    """How many interactive figures of numbers a cell shows (a quiz card is none)."""
    shown = (output.get("data", {}).get("text/html", "") for output in cell.get("outputs", []))
    return sum(len(re.findall(r"<[a-z]+-(?:explorer|planner)\b", html)) for html in shown)


def assertions(cell: NotebookNode) -> int:
    """How many ``assert`` run with the cell; one inside a function of an exercise does not count."""
    nodes = (node for statement in _tree(cell.source).body for node in _outside(statement))
    return sum(isinstance(node, ast.Assert) for node in nodes)


def _outside(node: ast.AST) -> Iterator[ast.AST]:
    """A statement and what is in it, without the bodies of functions and classes."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Lambda):
        return
    yield node
    for child in ast.iter_child_nodes(node):
        yield from _outside(child)


def figures(notebook: NotebookNode) -> list[str]:
    """Each picture has a caption and an alt text, and each figure an assertion in its cell or the two next to it.

    Interactive figures bring title and alt text along: utils.figures refuses one without.
    """
    found = []
    cells = [cell for _, cell in code_cells(notebook)]
    for number, cell in enumerate(cells, start=1):
        settings = cell.metadata.get("mystnb", {})
        if images(cell) and not settings.get("image", {}).get("alt", "").strip():
            found.append(f"the picture of code cell {number} has no alt text (mystnb.image.alt)")
        if images(cell) and not settings.get("figure", {}).get("caption", "").strip():
            found.append(f"the picture of code cell {number} has no caption (mystnb.figure.caption)")
        if settings.get("figure", {}).get("name") and sum("data" in output for output in cell.outputs) > 1:
            found.append(f"code cell {number} shows more than its figure, whose name the site would use twice")
        near = cells[max(0, number - 3) : number + 2]
        if (images(cell) or explorers(cell)) and not any(map(assertions, near)):
            found.append(f"no assertion stands in or beside code cell {number}, which draws a figure")
    return found


def called(notebook: NotebookNode, name: str) -> int:
    """How often the code calls a function of that name."""
    calls = (node for _, cell in code_cells(notebook) for node in ast.walk(_tree(cell.source)))
    return sum(isinstance(c, ast.Call) and ast.unparse(c.func).split(".")[-1] == name for c in calls)


def skeleton(notebook: NotebookNode) -> list[str]:
    """The parts of a chapter, in their order."""
    found = []
    text = [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]
    if not text or notebook.cells[0].cell_type != "markdown" or not text[0].startswith("# "):
        found.append("the first cell is not the title")
    before = next((i for i, c in enumerate(notebook.cells) if "## Objectives" in c.source), 0)
    if not any("claims.card(" in cell.source for cell in notebook.cells[:before]):
        found.append("no claim card (claims.card) before the objectives")
    headings = re.findall(r"^## +(.+?)\s*$", "\n".join(text), re.MULTILINE)
    present = [heading for heading in headings if heading in SECTIONS]
    if present != list(SECTIONS):
        found.append(f"sections should be {', '.join(SECTIONS)} in this order; found {', '.join(present) or 'none'}")
    if not any(re.search(r"\{div\} predict", each) for each in text):
        found.append("no question to commit to before an experiment (:::{div} predict)")
    counted = (("check", range(2, 5)), ("quiz_card", range(3, 6)), ("record", range(1, 100)))
    for name, allowed in counted:
        if (count := called(notebook, name)) not in allowed:
            found.append(f"{count} calls of {name}, expected {allowed.start} to {allowed.stop - 1}")
    named = sum(called(notebook, name) for name in ("attention_explorer", "curve_explorer", "Figure"))
    if not named and not any(explorers(cell) for _, cell in code_cells(notebook)):
        found.append("no interactive figure")
    if len(notebook.cells) not in CELLS:
        found.append(f"{len(notebook.cells)} cells, expected {CELLS.start} to {CELLS.stop - 1}")
    return found


def assessment(notebook: NotebookNode) -> list[str]:
    """The parts of an assessment: a goal in the ABCD form, a question first, exercises with checks, a rubric."""
    found = []
    text = [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]
    if not text or notebook.cells[0].cell_type != "markdown" or not text[0].startswith("# "):
        found.append("the first cell is not the title")
    headings = re.findall(r"^## +(.+?)\s*$", "\n".join(text), re.MULTILINE)
    if [heading for heading in headings if heading in ASSESSED] != list(ASSESSED):
        found.append(f"sections should be {', '.join(ASSESSED)} in this order; found {', '.join(headings) or 'none'}")
    goal, rubric = (next((each for each in text if f"## {name}" in each), "") for name in ASSESSED[:2])
    if missing := [word for word in ABCD if f"**{word}**" not in goal]:
        found.append(f"the objectives do not say: {', '.join(missing)}")
    if not re.search(r"^\|.*0 points.*2 points", rubric, re.MULTILINE):
        found.append("the rubric has no table with points")
    if not any("{div} predict" in each for each in text):
        found.append("no question to commit to before an experiment (:::{div} predict)")
    checks, cards = called(notebook, "check"), re.findall(r"\*\*Exercise .+?\*\*(.*)", "\n".join(text))
    if checks not in range(3, 11) or checks != len(cards):
        found.append(f"{checks} checks and {len(cards)} exercise cards, expected equally many, 3 to 10")
    if silent := [card for card in cards if "difficulty" not in card or "minutes" not in card]:
        found.append(f"{len(silent)} exercise cards do not say difficulty and minutes")
    return found


def size_limit(notebook: NotebookNode) -> float:
    """Bytes a notebook may have."""
    marks = [notebook.metadata.get("explorer", 0), *(cell.metadata.get("explorer", 0) for cell in notebook.cells)]
    return SIZE_LARGE if max(marks) >= 128 else SIZE
