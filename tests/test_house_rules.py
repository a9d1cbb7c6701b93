"""Budgets and habits the package keeps, checked on its source."""

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import pytest

TESTS = Path(__file__).resolve().parent
ROOT = TESTS.parent / "src" / "manyhands"
BENCH = TESTS.parent / "src" / "manyhands_bench"

MAX_FILE_LINES = 300
MAX_FUNCTION_LINES = 40
MAX_DEPTH = 3
MAX_ARGUMENTS = 5
MAX_LINE = 100
MEDIAN_FUNCTION_LINES = 12
VAGUE_NAMES = {"utils", "util", "helpers", "helper", "common", "misc"}
WAITING_CALLS = {"item", "cpu", "tolist"}
HOT_PATHS = ("policies/", "training/step/learner.py")
MAY_WAIT = {"policies/load.py", "policies/frozen_encoder.py"}
MAY_WAIT_WHEN_ACTING = {"policies/policy.py"}
"""Files whose methods named predict* and select* hand actions to a robot, and so must wait."""
TESTED_ELSEWHERE = {
    "__main__.py": "cli/test_main.py",
    "config/policies/features.py": "config/policies/test_base.py",
    "training/run.py": "training/test_loop.py",
    "types.py": "policies/test_loss.py",
}
"""Modules whose test does not stand in their mirror place: source path -> test file."""
BENCH_TESTED_ELSEWHERE = {
    "loader/reference_loader.py": "loader/test_reference.py",
    "step/reference_step.py": "step/test_reference.py",
}

Function = ast.FunctionDef | ast.AsyncFunctionDef
BLOCKS = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Try, ast.TryStar)
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


@dataclass(frozen=True)
class Source:
    """A file of the package."""

    path: str
    text: str
    tree: ast.Module

    def functions(self) -> list[Function]:
        """Every function and method, nested ones included."""
        return [node for node in ast.walk(self.tree) if isinstance(node, Function)]

    def at(self, node: ast.AST, told: str) -> str:
        """A violation, with its place."""
        return f"{self.path}:{getattr(node, 'lineno', 1)}: {told}"


Check = Callable[[Source], Iterator[str]]


def read_sources(root: Path) -> list[Source]:
    """Every source file under a folder."""
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(root.rglob("*.py"))}
    return [
        Source(path.relative_to(root).as_posix(), text, ast.parse(text, filename=str(path)))
        for path, text in texts.items()
    ]


def long_files(source: Source) -> Iterator[str]:
    num_lines = len(source.text.splitlines())
    if num_lines > MAX_FILE_LINES:
        yield f"{source.path}: {num_lines} lines, at most {MAX_FILE_LINES}"


def long_lines(source: Source) -> Iterator[str]:
    for number, line in enumerate(source.text.splitlines(), start=1):
        if len(line) > MAX_LINE:
            yield f"{source.path}:{number}: {len(line)} characters, at most {MAX_LINE}"


def length_of(function: Function) -> int:
    """Lines from `def` to the end, without decorators, with the docstring."""
    return (function.end_lineno or function.lineno) - function.lineno + 1


def long_functions(source: Source) -> Iterator[str]:
    for function in source.functions():
        if length_of(function) > MAX_FUNCTION_LINES:
            told = f"{function.name} has {length_of(function)} lines, at most {MAX_FUNCTION_LINES}"
            yield source.at(function, told)


def deep_blocks(source: Source) -> Iterator[str]:
    for node, depth in depths(source.tree, 0):
        if depth == MAX_DEPTH + 1:
            yield source.at(node, f"block nested {depth} deep, at most {MAX_DEPTH}")


def depths(parent: ast.AST, depth: int) -> Iterator[tuple[ast.AST, int]]:
    """Blocks with their depth inside the innermost function; `elif` is as deep as its `if`."""
    for node in ast.iter_child_nodes(parent):
        inner = depth
        if isinstance(node, SCOPES):
            inner = 0
        elif isinstance(node, (*BLOCKS, ast.Match)) and not is_elif(node, parent):
            inner = depth + 1
            yield node, inner
        yield from depths(node, inner)


def is_elif(node: ast.AST, parent: ast.AST) -> bool:
    if not isinstance(node, ast.If) or not isinstance(parent, ast.If):
        return False
    return parent.orelse == [node] and node.col_offset == parent.col_offset


def many_arguments(source: Source) -> Iterator[str]:
    methods = methods_of(source.tree)
    # A kernel of a GPU takes pointers and sizes one by one.
    for function in (each for each in source.functions() if "jit" not in decorators(each)):
        number = len(arguments_of(function, function in methods))
        if number > MAX_ARGUMENTS:
            yield source.at(
                function, f"{function.name} has {number} arguments, at most {MAX_ARGUMENTS}"
            )


def methods_of(tree: ast.AST) -> set[Function]:
    """Functions that stand directly in a class and take `self` or `cls`."""
    return {
        node
        for parent in ast.walk(tree)
        if isinstance(parent, ast.ClassDef)
        for node in parent.body
        if isinstance(node, Function) and "staticmethod" not in decorators(node)
    }


def arguments_of(function: Function, is_method: bool) -> list[ast.arg]:
    """All arguments but `self` and `cls`."""
    spec = function.args
    plain = [*spec.posonlyargs, *spec.args][is_method:]
    return [*plain, *spec.kwonlyargs, *filter(None, (spec.vararg, spec.kwarg))]


def decorators(function: Function) -> set[str]:
    return {ast.unparse(node).rpartition(".")[2] for node in function.decorator_list}


@dataclass(frozen=True)
class Public:
    """A class, function or method others may use."""

    node: ast.ClassDef | Function
    name: str
    is_method: bool
    is_stub: bool


def public_names(source: Source) -> Iterator[Public]:
    for node in source.tree.body:
        if not isinstance(node, SCOPES) or node.name.startswith("_"):
            continue
        yield Public(node, node.name, is_method=False, is_stub=is_overload(node))
        if isinstance(node, ast.ClassDef):
            yield from public_methods(node)


def public_methods(owner: ast.ClassDef) -> Iterator[Public]:
    is_protocol = any("Protocol" in ast.unparse(base) for base in owner.bases)
    for node in owner.body:
        if isinstance(node, Function) and not node.name.startswith("_"):
            is_stub = is_overload(node) or (is_protocol and ast.unparse(node.body[0]) == "...")
            is_method = "staticmethod" not in decorators(node)
            yield Public(node, f"{owner.name}.{node.name}", is_method, is_stub)


def is_overload(node: ast.AST) -> bool:
    return isinstance(node, Function) and bool({"overload", "setter"} & decorators(node))


def undocumented(source: Source) -> Iterator[str]:
    if source.tree.body and not ast.get_docstring(source.tree):
        yield f"{source.path}: the module has no docstring"
    for public in public_names(source):
        if not public.is_stub and not ast.get_docstring(public.node):
            yield source.at(public.node, f"{public.name} has no docstring")


def untyped(source: Source) -> Iterator[str]:
    for public in public_names(source):
        if isinstance(public.node, ast.ClassDef):
            continue
        arguments = arguments_of(public.node, public.is_method)
        bare = [argument.arg for argument in arguments if argument.annotation is None]
        bare += ["return"] if public.node.returns is None else []
        if bare:
            yield source.at(public.node, f"{public.name} does not type {', '.join(bare)}")


def vague_modules(source: Source) -> Iterator[str]:
    vague = VAGUE_NAMES & set(Path(source.path).with_suffix("").parts)
    if vague:
        yield f"{source.path}: {', '.join(vague)} says nothing; name what is in it"


MAY_CATCH_ALL = ("sim/slot.py",)
"""An environment is other people's code, and may raise anything."""


def broad_handlers(source: Source) -> Iterator[str]:
    if source.path in MAY_CATCH_ALL:
        return
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ExceptHandler) and catches_everything(node):
            yield source.at(node, "catches everything; name the errors that can happen")


def catches_everything(handler: ast.ExceptHandler) -> bool:
    """Whether no error passes; BaseException may be looked at where it is raised again."""
    if handler.type is None:
        return True
    names = {node.id for node in ast.walk(handler.type) if isinstance(node, ast.Name)}
    passes_on = ast.unparse(handler.body[-1]) == "raise"
    return "Exception" in names or ("BaseException" in names and not passes_on)


MAY_READ_THE_DATE = (
    "checkpoint/writer.py",
    "cli/cache.py",
    "cli/status.py",
    "data/cache/identity.py",
    "parallel/hang_report.py",
    "parallel/watchdog.py",
    "training/restarts.py",
)
"""Times that other processes read, or that are compared with those of files: no deadlines."""


def wall_clocks(source: Source) -> Iterator[str]:
    if source.path in MAY_READ_THE_DATE:
        return
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "time.time":
            yield source.at(node, "a clock that may be set back; use time.monotonic")


def postponed_work(source: Source) -> Iterator[str]:
    for number, line in enumerate(source.text.splitlines(), start=1):
        if re.search(r"\b(TODO|FIXME|XXX)\b", line):
            yield f"{source.path}:{number}: {line.strip()}"


def device_waits(source: Source) -> Iterator[str]:
    if not source.path.startswith(HOT_PATHS) or source.path in MAY_WAIT:
        return
    for node in hot_nodes(source.tree, source.path in MAY_WAIT_WHEN_ACTING):
        match node:
            case ast.Call(func=ast.Attribute(attr=name)) if name in WAITING_CALLS:
                yield source.at(node, f".{name}() waits for the device")
            case ast.Call(func=ast.Name(id="print")):
                yield source.at(node, "print() in the hot path")


def hot_nodes(parent: ast.AST, may_act: bool) -> Iterator[ast.AST]:
    """Everything below a node, without the methods that act where those are allowed."""
    for node in ast.iter_child_nodes(parent):
        is_acting = isinstance(node, Function) and node.name.startswith(("predict", "select"))
        if not (may_act and is_acting and isinstance(parent, ast.ClassDef)):
            yield node
            yield from hot_nodes(node, may_act)


def long_median(sources: list[Source]) -> Iterator[str]:
    lengths = [length_of(function) for source in sources for function in source.functions()]
    if lengths and median(lengths) >= MEDIAN_FUNCTION_LINES:
        yield f"half of {len(lengths)} functions have {median(lengths):g} lines or more"


def untested(sources: list[Source], tests: Path, elsewhere: dict[str, str]) -> Iterator[str]:
    for source in sources:
        path = Path(source.path)
        mirror = (path.parent / f"test_{path.name}").as_posix()
        test = elsewhere.get(source.path, mirror)
        if path.name != "__init__.py" and not (tests / test).is_file():
            yield f"{source.path} has no tests/{test}"
    for path_told in sorted(set(elsewhere) - {source.path for source in sources}):
        yield f"TESTED_ELSEWHERE names {path_told}, which does not exist"


CHECKS: list[Check] = [
    long_files,
    long_lines,
    long_functions,
    deep_blocks,
    many_arguments,
    undocumented,
    untyped,
    vague_modules,
    broad_handlers,
    wall_clocks,
    postponed_work,
    device_waits,
]


@pytest.fixture(scope="module")
def sources() -> list[Source]:
    """The package as it is."""
    return read_sources(ROOT)


@pytest.fixture(scope="module")
def bench_sources() -> list[Source]:
    """The package that measures it."""
    return read_sources(BENCH)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_packages_have_no(check: Check, sources: list[Source], bench_sources: list[Source]) -> None:
    violations = [told for source in (*sources, *bench_sources) for told in check(source)]
    assert not violations, "\n" + "\n".join(violations)


def test_the_typical_function_is_short(sources: list[Source]) -> None:
    assert not [*long_median(sources)]


def test_every_module_has_its_test_file(sources: list[Source], bench_sources: list[Source]) -> None:
    violations = [*untested(sources, TESTS, TESTED_ELSEWHERE)]
    violations += untested(bench_sources, TESTS / "bench", BENCH_TESTED_ELSEWHERE)
    assert not violations, "\n" + "\n".join(violations)


def plant(folder: Path, path: str, text: str) -> Source:
    """A toy tree of one file."""
    file = folder / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    (source,) = read_sources(folder)
    return source


def function_of(num_lines: int) -> str:
    return "@cached\ndef long():\n" + "    x = 1\n" * (num_lines - 1)


def nested(*heads: str) -> str:
    lines = [f"{'    ' * depth}{head}:" for depth, head in enumerate(("def f()", *heads))]
    return "\n".join([*lines, "    " * len(lines) + "pass"])


ELIF = "def f():\n  if a:\n    if b:\n      if c: pass\n      elif d: pass\n      elif e: pass\n"
METHOD = "class A:\n    def f(self, a, b, *, c, d, e{}): pass"
STUB = "'''Doc.'''\nclass A(Protocol):\n    '''A.'''\n    def f(self) -> int: ..."
ACTING = "class A:\n    def {}(self):\n        return x.cpu()"


@pytest.mark.parametrize(
    ("check", "text", "told"),
    [
        (long_files, "\n" * 301, "301 lines"),
        (long_lines, "x = 1\n" + "#" * 101, ":2: 101 characters"),
        (long_functions, function_of(41), ":2: long has 41 lines"),
        (long_functions, "class A:\n  async def f():\n" + "    x\n" * 40, "f has 41 lines"),
        (deep_blocks, nested("if a", "for b in c", "while d", "with e"), ":5: block nested 4 deep"),
        (deep_blocks, nested("if a", "if b", "if c", "match d", "case 1"), "nested 4 deep"),
        (deep_blocks, ELIF + "      else:\n        if f: pass", ":8: block nested 4 deep"),
        (many_arguments, "def f(a, b, c, *, d, e, g): pass", "f has 6 arguments"),
        (many_arguments, METHOD.format(", **rest"), "f has 6 arguments"),
        (undocumented, "x = 1", "the module has no docstring"),
        (undocumented, "'''Doc.'''\nclass A: pass", ":2: A has no docstring"),
        (undocumented, "'''Doc.'''\ndef f(): pass", ":2: f has no docstring"),
        (undocumented, "'''Doc.'''\nclass A:\n  '''A.'''\n  def f(self): pass", "A.f has no doc"),
        (untyped, "def f(a: int, b, *c, d) -> int: pass", "f does not type b, d, c"),
        (untyped, "class A:\n    def f(self): pass", "A.f does not type return"),
        (broad_handlers, "try: pass\nexcept Exception: pass", ":2: catches everything"),
        (broad_handlers, "try: pass\nexcept: pass", "catches everything"),
        (broad_handlers, "try: pass\nexcept (OSError, Exception): pass", "catches everything"),
        (broad_handlers, "try: pass\nexcept BaseException: pass", "catches everything"),
        (wall_clocks, "import time\nend = time.time() + 5", ":2: a clock that may be set back"),
        (postponed_work, "x = 1  # TODO later", ":1: x = 1  # TODO later"),
        (postponed_work, "'''FIXME'''", "FIXME"),
        (device_waits, "loss.item()", ".item() waits"),
        (device_waits, "def f():\n    return x.detach().cpu()", ".cpu() waits"),
        (device_waits, "x.tolist()", ".tolist() waits"),
        (device_waits, "print(x)", "print()"),
    ],
)
def test_a_planted_violation_is_caught(tmp_path: Path, check: Check, text: str, told: str) -> None:
    (found,) = check(plant(tmp_path, "policies/act/network.py", text))
    assert found.startswith("policies/act/network.py") and told in found


@pytest.mark.parametrize(
    ("check", "text"),
    [
        (long_files, "\n" * 300),
        (long_lines, "#" * 100),
        (long_functions, function_of(40)),
        (deep_blocks, nested("if a", "for b in c", "with d")),
        (deep_blocks, nested("if a", "if b", "def g()", "if c", "if d")),
        (deep_blocks, ELIF),
        (many_arguments, METHOD.format("")),
        (many_arguments, "@triton.jit\ndef f(a, b, c, d, e, g): pass"),
        (undocumented, ""),
        (undocumented, "'''Doc.'''\ndef _f(): pass\nclass _A:\n    def f(self): pass"),
        (undocumented, "'''Doc.'''\ndef f():\n    '''F.'''\n    def inner(): pass"),
        (undocumented, "'''Doc.'''\nclass A:\n    '''A.'''\n    def __len__(self): pass"),
        (undocumented, STUB),
        (untyped, "class A:\n    @staticmethod\n    def f(a: int, *b: int) -> None: pass"),
        (broad_handlers, "try: pass\nexcept (OSError, ValueError): pass"),
        (broad_handlers, "try: pass\nexcept BaseException:\n    tidy()\n    raise"),
        (postponed_work, "todo_list = mastodon"),
        (device_waits, "x.items()\nx.item\npprint(x)"),
    ],
)
def test_what_keeps_the_rules_is_left_alone(tmp_path: Path, check: Check, text: str) -> None:
    assert [*check(plant(tmp_path, "policies/act/network.py", text))] == []


@pytest.mark.parametrize(
    ("path", "method", "is_caught"),
    [
        ("policies/policy.py", "predict_action_chunk", False),
        ("policies/policy.py", "select_action", False),
        ("policies/policy.py", "training_loss", True),
        ("policies/load.py", "load", False),
        ("policies/act/network.py", "predict", True),
        ("training/step/learner.py", "predict", True),
        ("training/validate.py", "loss", False),
    ],
)
def test_only_loading_and_acting_may_wait_for_the_device(
    tmp_path: Path, path: str, method: str, is_caught: bool
) -> None:
    assert bool([*device_waits(plant(tmp_path, path, ACTING.format(method)))]) == is_caught


@pytest.mark.parametrize("path", ["data/utils.py", "helpers/a.py", "misc.py", "data/common.py"])
def test_a_vague_name_is_caught(tmp_path: Path, path: str) -> None:
    assert len([*vague_modules(plant(tmp_path, path, ""))]) == 1


def test_long_functions_are_caught_by_their_median(tmp_path: Path) -> None:
    text = function_of(3) + function_of(12) + function_of(30)
    assert [*long_median([plant(tmp_path, "a.py", text)])] == [
        "half of 3 functions have 12 lines or more"
    ]


def test_a_module_without_its_test_is_caught(tmp_path: Path) -> None:
    sources = [plant(tmp_path / "src", "data/order.py", "")]
    tests = tmp_path / "tests"
    assert [*untested(sources, tests, {})] == ["data/order.py has no tests/data/test_order.py"]
    plant(tests, "data/test_order.py", "")
    assert [*untested(sources, tests, {})] == []
    assert [*untested(sources, tests, {"data/order.py": "test_gone.py", "old.py": "x.py"})] == [
        "data/order.py has no tests/test_gone.py",
        "TESTED_ELSEWHERE names old.py, which does not exist",
    ]
