"""Imports point down, outside packages stay where they belong, and none go round in circles."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).resolve().parents[1] / "src" / "manyhands"
LAYERS = [
    "errors os_errors units rng atomic cores garbage manifest version",
    "config types stop draws",
    "lerobot_format parallel observe launch",
    "data policies sim",
    "checkpoint evaluation",
    "training report",
    "demo doctor engine plan",
    "cli",
    "__main__",
]
LAYER = {name: layer for layer, names in enumerate(LAYERS) for name in names.split()}
ONLY_IN = {
    "accelerate": {"parallel"},
    "draccus": {"config"},
    "matplotlib": {"report"},
    "jinja2": {"report"},
    "wandb": {"observe"},
    "tensorboard": {"observe"},
    "trackio": {"observe"},
    "gymnasium": {"sim"},
    "h5py": {"data"},
    "zarr": {"data"},
    "imagecodecs": {"data"},
    "manyhands_bench": {"cli"},
}
NEVER_IN = {
    "torch": {*LAYERS[0].split(), "config", "launch", "stop"},
}
READS_ENVIRONMENT = ("cli/", "launch/", "parallel/world.py", "data/location.py")
ENVIRONMENT = {"os": {"environ", "environb", "getenv", "getenvb"}, "sys": {"argv"}}


@dataclass(frozen=True)
class Import:
    """One imported name, with the module it may be and where it stands."""

    name: str
    line: int
    is_for_types: bool


@dataclass(frozen=True)
class Module:
    """A source file, its dotted name, and what it imports anywhere in its body."""

    path: str
    name: str
    tree: ast.Module
    imports: list[Import]

    @property
    def package(self) -> str:
        """The part of manyhands it belongs to; empty for `manyhands/__init__.py`."""
        return self.name.partition(".")[2].partition(".")[0]


def read_modules(root: Path) -> list[Module]:
    """Every module under a package folder."""
    return [read_module(root, path) for path in sorted(root.rglob("*.py"))]


def read_module(root: Path, path: Path) -> Module:
    relative = path.relative_to(root)
    dotted = ".".join([root.name, *relative.with_suffix("").parts]).removesuffix(".__init__")
    tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    package = dotted if path.name == "__init__.py" else dotted.rpartition(".")[0]
    return Module(relative.as_posix(), dotted, tree, list(imports_in(tree, package)))


def imports_in(tree: ast.AST, package: str, is_for_types: bool = False) -> Iterator[Import]:
    """Imports of a body and of everything nested in it, relative ones made absolute."""
    for node in ast.iter_child_nodes(tree):
        for name in names_imported_by(node, package):
            yield Import(name, getattr(node, "lineno", 0), is_for_types)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            body = ast.Module(body=node.body, type_ignores=[])
            yield from imports_in(body, package, is_for_types=True)
            node = ast.Module(body=node.orelse, type_ignores=[])
        yield from imports_in(node, package, is_for_types)


def names_imported_by(node: ast.AST, package: str) -> list[str]:
    match node:
        case ast.Import():
            return [alias.name for alias in node.names]
        case ast.ImportFrom():
            outer = package.rsplit(".", node.level - 1)[0] if node.level else ""
            source = ".".join(filter(None, [outer, node.module]))
            return [f"{source}.{alias.name}" for alias in node.names]
        case ast.Call(func=func, args=[ast.Constant(value=str(name)), *_]) if ast.unparse(
            func
        ).rpartition(".")[2] in ("import_module", "__import__"):
            return [name]
    return []


def unknown_packages(modules: list[Module]) -> list[str]:
    """Packages that have no place in the layers yet."""
    unknown = sorted({module.package for module in modules} - {"", *LAYER})
    return [f"{name} has no layer: add it to LAYERS in tests/test_layers.py" for name in unknown]


def upward_imports(modules: list[Module]) -> list[str]:
    """Imports that do not point strictly downward, lazy and typing ones included."""
    found = []
    for module in modules:
        for imported in module.imports:
            top, _, rest = imported.name.partition(".")
            there = rest.partition(".")[0]
            if top != "manyhands" or module.package in ("", there):
                continue
            where = f"{module.path}:{imported.line}: {module.package}"
            if there not in LAYER:
                found.append(f"{where} imports {imported.name}, which is in no layer")
            elif LAYER[there] >= LAYER.get(module.package, 0):
                found.append(f"{where} may not import {there}, which is not below it")
    return found


def foreign_ground(modules: list[Module]) -> list[str]:
    """Outside packages imported where they do not belong."""
    found = []
    for module in modules:
        for imported in module.imports:
            top = imported.name.partition(".")[0]
            is_outside = module.package not in ONLY_IN.get(top, {module.package})
            if is_outside or module.package in NEVER_IN.get(top, ()):
                found.append(f"{module.path}:{imported.line}: {module.package} imports {top}")
    return found


def ground_floor_imports(modules: list[Module]) -> list[str]:
    """What the lowest layer imports beyond the standard library."""
    return [
        f"{module.path}:{imported.line}: {module.package} imports {imported.name}"
        for module in modules
        if LAYER.get(module.package) == 0
        for imported in module.imports
        if imported.name.partition(".")[0] not in sys.stdlib_module_names
    ]


def environment_reads(modules: list[Module]) -> list[str]:
    """Places outside the front doors that look at the environment or the command line."""
    return [
        f"{module.path}:{line}: reads {name}"
        for module in modules
        if not module.path.startswith(READS_ENVIRONMENT)
        for line, name in sorted(environment_names(module))
    ]


def environment_names(module: Module) -> Iterator[tuple[int, str]]:
    aliases = {
        alias.asname or alias.name: alias.name
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    }
    for imported in module.imports:
        source, _, name = imported.name.rpartition(".")
        if name in ENVIRONMENT.get(source, ()):
            yield imported.line, imported.name
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            source = aliases.get(node.value.id, "")
            if node.attr in ENVIRONMENT.get(source, ()):
                yield node.lineno, f"{source}.{node.attr}"


def import_circles(modules: list[Module]) -> list[str]:
    """Groups of modules each of which reaches all others; imports only for types do not count."""
    graph = {module.name: edges(module, {other.name for other in modules}) for module in modules}
    reach = {name: reachable(graph, name) for name in graph}
    circles = {
        frozenset(other for other in reach[name] if name in reach[other])
        for name in graph
        if name in reach[name]
    }
    return sorted(" <-> ".join(sorted(circle)) for circle in circles)


def edges(module: Module, known: set[str]) -> set[str]:
    """The modules of the package that running this one imports."""
    names = [imported.name for imported in module.imports if not imported.is_for_types]
    targets = {name if name in known else name.rpartition(".")[0] for name in names}
    return (targets & known) - {module.name}


def reachable(graph: dict[str, set[str]], start: str) -> set[str]:
    seen: set[str] = set()
    waiting = list(graph[start])
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting.extend(graph[name])
    return seen


@pytest.fixture(scope="module")
def modules() -> list[Module]:
    """The package as it is."""
    return read_modules(ROOT)


def test_every_package_has_a_layer(modules: list[Module]) -> None:
    assert unknown_packages(modules) == []


def test_imports_point_strictly_down(modules: list[Module]) -> None:
    assert upward_imports(modules) == []


def test_outside_packages_are_imported_only_where_they_belong(modules: list[Module]) -> None:
    assert foreign_ground(modules) == []


def test_the_lowest_layer_needs_only_the_standard_library(modules: list[Module]) -> None:
    assert ground_floor_imports(modules) == []


def test_environment_and_command_line_are_read_at_the_front_doors(modules: list[Module]) -> None:
    assert environment_reads(modules) == []


def test_no_modules_import_each_other_in_a_circle(modules: list[Module]) -> None:
    assert import_circles(modules) == []


@pytest.mark.new_interpreter
def test_flags_and_launching_answer_without_loading_torch(modules: list[Module]) -> None:
    names = [module.name for module in modules if module.package in ("config", "launch")]
    program = "import importlib, sys; [*map(importlib.import_module, sys.argv[1:])]; "
    program += "sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program, *names], check=False).returncode == 0


def test_the_figure_shows_every_package_in_its_layer() -> None:
    figure = ElementTree.parse(ROOT.parents[1] / "docs/images/architecture.svg")
    for layer, names in enumerate(LAYERS[: LAYER["cli"] + 1]):
        group = figure.find(f".//*[@id='layer-{layer}']")
        assert group is not None
        shown = {text.text for text in group if text.get("class") == "name"}
        assert shown == {*names.split()} - {"version"}


def plant(folder: Path, **files: str) -> list[Module]:
    """A toy package; `data__order` stands for data/order.py."""
    root = folder / "manyhands"
    for name, text in {"__init__": "", **files}.items():
        path = root / f"{name}.py" if name == "__init__" else root / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return read_modules(root)


def test_an_unlisted_package_is_caught(tmp_path: Path) -> None:
    assert unknown_packages(plant(tmp_path, gadgets__lamp="", data__order="")) == [
        "gadgets has no layer: add it to LAYERS in tests/test_layers.py"
    ]


@pytest.mark.parametrize(
    "line",
    [
        "import manyhands.training.loop",
        "from manyhands.training import loop",
        "from manyhands.training.loop import train",
        "from manyhands import training",
        "from ..training import loop",
        "from .. import training",
        "def late():\n    from manyhands.training.loop import train",
        "def late():\n    importlib.import_module('manyhands.training.loop')",
        "if TYPE_CHECKING:\n    from manyhands.training import loop",
    ],
)
def test_an_upward_import_is_caught_however_it_is_written(tmp_path: Path, line: str) -> None:
    (found,) = upward_imports(plant(tmp_path, data__order=line, training__loop=""))
    assert "data may not import training, which is not below it" in found


def test_siblings_and_the_front_door_are_caught_and_lower_layers_are_not(tmp_path: Path) -> None:
    found = upward_imports(
        plant(
            tmp_path,
            data__order="import manyhands.policies.act\nimport manyhands",
            data__stream="from manyhands.data.order import a\nfrom manyhands.config import b\n"
            "from . import order\nfrom manyhands.types import Batch\nimport torch",
        )
    )
    assert found == [
        "data/order.py:1: data may not import policies, which is not below it",
        "data/order.py:2: data imports manyhands, which is in no layer",
    ]


def test_foreign_ground_is_caught(tmp_path: Path) -> None:
    found = foreign_ground(
        plant(
            tmp_path,
            training__loop="import accelerate\nimport torch",
            config__flags="import draccus\ndef late():\n    from torch import nn",
            parallel__world="from accelerate import Accelerator\nimport accelerated_thing",
        )
    )
    assert found == [
        "config/flags.py:3: config imports torch",
        "training/loop.py:1: training imports accelerate",
    ]


def test_a_heavy_ground_floor_is_caught(tmp_path: Path) -> None:
    found = ground_floor_imports(plant(tmp_path, rng="import hashlib\nimport numpy as np"))
    assert found == ["rng.py:2: rng imports numpy"]


def test_environment_reads_are_caught_under_any_name(tmp_path: Path) -> None:
    text = (
        "import os\nimport sys as system\nfrom os import getenv\nos.environ\nsystem.argv\nos.path"
    )
    assert environment_reads(plant(tmp_path, data__order=text)) == [
        "data/order.py:3: reads os.getenv",
        "data/order.py:4: reads os.environ",
        "data/order.py:5: reads sys.argv",
    ]
    assert environment_reads(plant(tmp_path / "b", parallel__world=text, cli__main=text)) == []


def test_a_circle_is_caught_with_all_its_members(tmp_path: Path) -> None:
    found = import_circles(
        plant(
            tmp_path,
            data__a="from manyhands.data.b import x",
            data__b="def late():\n    from manyhands.data import c",
            data__c="from .a import y",
            data__d="from manyhands.data import a",
        )
    )
    assert found == ["manyhands.data.a <-> manyhands.data.b <-> manyhands.data.c"]


def test_an_import_for_types_closes_no_circle(tmp_path: Path) -> None:
    guarded = "if TYPE_CHECKING:\n    from manyhands.data.a import x\nelse:\n    import os"
    assert import_circles(plant(tmp_path, data__a="import manyhands.data.b", data__b=guarded)) == []
