"""A student's answers, put into the notebook as it was handed out.

An answer is every cell that defines the function of an exercise, with the definitions and imports of cells that the
student has added. Its check is never the student's: test and check come from the pristine notebook, in a cell of
their own.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from IPython.core.inputtransformer2 import TransformerManager
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_notebook

from tools.pipeline.source import has_solution

CHANGED_CHECK = "its check was changed or removed: judged by the original"


@dataclass(frozen=True)
class Exercise:
    """name: as its check says, "L1.1". functions: what the student writes. check: the source that judges it."""

    name: str
    position: int
    functions: tuple[str, ...]
    check: str


@dataclass
class Assembled:
    """A notebook to run: each cell of an exercise says in its metadata which ``exercise`` and which ``part`` it is,
    "answer" or "check". remarks: (exercise or "", what has to be said of the copy). broken: exercise → why its answer
    cannot be run."""

    notebook: NotebookNode = field(default_factory=new_notebook)
    remarks: list[tuple[str, str]] = field(default_factory=list)
    broken: dict[str, str] = field(default_factory=dict)


def exercises_of(solved: NotebookNode) -> list[Exercise]:
    """The exercises of a notebook with solutions, in order."""
    found = []
    for position, cell in enumerate(solved.cells):
        if cell.cell_type != "code" or not has_solution(cell):
            continue
        functions, judging = [], []
        for node, text in _statements(cell.source):
            (functions if has_solution(NotebookNode(source=text)) else judging).append((node, text))
        names = [name for node, _ in judging if (name := _checked(node)) is not None]
        if len(names) != 1:
            raise ValueError(f"cell {position} has a solution and {len(names)} checks: give it one, check(name, …)")
        check = "\n\n\n".join(text for _, text in judging)
        found.append(Exercise(names[0], position, tuple(node.name for node, _ in functions), check))
    return found


def functions_in(notebook: NotebookNode) -> set[str]:
    """Names of the functions that the cells of a notebook define, also where a cell does not parse."""
    return {name for source in _code(notebook) for name in re.findall(r"^def (\w+)\(", source, re.M)}


def assemble(
    pristine: NotebookNode, solved: NotebookNode, copy: NotebookNode, without: Iterable[str] = ()
) -> Assembled:
    """The pristine notebook with the answers of ``copy``; the exercises in ``without`` keep their stubs.

    pristine: with stubs. solved: the same with solutions, which tells where the exercises are.
    """
    exercises = {exercise.position: exercise for exercise in exercises_of(solved)}
    own = {name for exercise in exercises.values() for name in exercise.functions}
    protected = _meanings(_code(pristine), own)
    built, cells = Assembled(), []
    helpers = list(_helpers(pristine, copy, own, protected, built))
    for position, cell in enumerate(pristine.cells):
        exercise = exercises.get(position)
        if exercise is None:
            cells.append(cell)
            continue
        texts = [text for node, text in _statements(cell.source) if _name(node) in exercise.functions]  # the stubs
        if exercise.name not in without:
            texts += [*helpers, *_answer(copy, exercise, protected, built)]
        parts = [*((text, "answer") for text in texts), (exercise.check, "check")]
        cells += [new_code_cell(text, metadata={"exercise": exercise.name, "part": part}) for text, part in parts]
    built.notebook = new_notebook(cells=cells, metadata=pristine.metadata)
    return built


def _answer(copy: NotebookNode, exercise: Exercise, protected: dict[str, str], built: Assembled) -> Iterator[str]:
    """The student's code for one exercise; what is wrong with it is noted in ``built``."""
    wanted = re.compile(rf"^def ({'|'.join(exercise.functions)})\(", re.M)
    holding = [source for source in _code(copy) if wanted.search(source)]
    if not holding:
        built.broken[exercise.name] = f"no function {exercise.functions[0]}() in the notebook: was its cell deleted?"
        return
    given = [node for node, _ in _statements(exercise.check)]
    tests = {_name(node) for node in given} - {None}
    judging = []
    try:
        statements = [each for source in holding for each in _statements(source)]
    except SyntaxError as error:
        built.broken[exercise.name] = f"its cell cannot be read: {error.msg}, line {error.lineno}"
        return
    for node, text in statements:
        if _checked(node) is not None or _name(node) in tests:
            judging.append(ast.dump(node))
        elif taken := _rebound(node, protected):
            built.remarks.append((exercise.name, f"gives {taken} another meaning: left out"))
        else:
            yield text
    if judging != [ast.dump(node) for node in given if _checked(node) is not None or _name(node) in tests]:
        built.remarks.append((exercise.name, CHANGED_CHECK))


def _helpers(
    pristine: NotebookNode, copy: NotebookNode, own: set[str], protected: dict[str, str], built: Assembled
) -> Iterator[str]:
    """Definitions and imports in cells that the student has added: answers may use them."""
    ids = {cell.get("id") for cell in pristine.cells}
    for source in _code(NotebookNode(cells=[cell for cell in copy.cells if cell.get("id") not in ids])):
        try:
            statements = list(_statements(source))
        except SyntaxError:
            continue  # an added cell that does not run is no answer
        for node, text in statements:
            if not isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)) or _name(node) in own:
                continue
            if taken := _rebound(node, protected):
                built.remarks.append(("", f"an added cell gives {taken} another meaning: left out"))
            else:
                yield text


def _code(notebook: NotebookNode) -> list[str]:
    return [_plain(cell.source) for cell in notebook.cells if cell.cell_type == "code"]


def _plain(source: str) -> str:
    """A cell as Python: what IPython adds, such as %magics, becomes calls."""
    try:
        return TransformerManager().transform_cell(source)
    except SyntaxError:
        return source


def _statements(source: str) -> Iterator[tuple[ast.stmt, str]]:
    """Each statement at the top level of a cell, with its text."""
    for node in ast.parse(source).body:
        yield node, ast.get_source_segment(source, node)


def _checked(node: ast.stmt) -> str | None:
    """The name in ``check("name", …)``; None for another statement."""
    call = node.value if isinstance(node, ast.Expr) else None
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "check" and call.args:
        return str(getattr(call.args[0], "value", ""))
    return None


def _name(node: ast.stmt) -> str | None:
    return getattr(node, "name", None)


def _binds(node: ast.stmt) -> dict[str, str]:
    """Names that a statement gives a meaning → where the meaning is from."""
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        module = getattr(node, "module", "")
        return {(each.asname or each.name).split(".")[0]: f"{module}.{each.name}" for each in node.names}
    if _name(node):
        return {node.name: ast.dump(node)}
    stored = (each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store))
    return dict.fromkeys(stored, ast.dump(node))


def _rebound(node: ast.stmt, protected: dict[str, str]) -> str | None:
    """A name of the notebook that a statement gives another meaning, if any. Importing torch again is none."""
    return next((name for name, origin in _binds(node).items() if protected.get(name, origin) != origin), None)


def _meanings(sources: Iterable[str], own: set[str]) -> dict[str, str]:
    """What a notebook imports or defines, apart from what its exercises ask for: answers must leave it alone."""
    nodes = (node for source in sources for node, _ in _statements(source))
    named = (node for node in nodes if _name(node) or isinstance(node, (ast.Import, ast.ImportFrom)))
    return {name: origin for node in named for name, origin in _binds(node).items() if name not in own}
