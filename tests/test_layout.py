"""The direction of imports (README, tour of the code) and how light the package is to import."""

import ast
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import beebo_scale

ROOT = Path(beebo_scale.__file__).parent

# Part of the package (a module or a folder) -> the other parts that it may import. Everything may import itself.
FOUNDATIONS = {"drawing", "errors", "locks", "memory", "progress", "specs", "temperature", "workers"}
ALLOWED = {
    "drawing": set(),
    "errors": set(),
    "locks": {"errors"},
    "memory": set(),
    "progress": set(),
    "workers": set(),
    "temperature": {"errors"},
    "specs": {"errors", "temperature"},
    "datasets": set(),
    "protocols": set(),
    "linalg": {"kernels", *FOUNDATIONS},
    "kernels": {"protocols", "screening"},
    "posterior": {"protocols"},
    "conditioned": {"posterior", "protocols"},
    "kernel_posterior": {"kernels", "linalg", "posterior", "protocols"},
    "information": {"posterior", *FOUNDATIONS},
    "bounds": {"information", "linalg", "posterior", *FOUNDATIONS},
    "fronts": set(),
    "outcomes": {"fronts"},
    "energy": {"information", "posterior", "protocols", *FOUNDATIONS},
    "screening": {"drawing", "errors", "memory", "specs"},
    "archives": {"errors", "screening"},
    "surrogates": {
        "archives",
        "conditioned",
        "information",
        "kernel_posterior",
        "kernels",
        "linalg",
        "posterior",
        "protocols",
        "screening",
    }
    | FOUNDATIONS,
    # Acquisition takes botorch models too.
    "acquisition": {"energy", "information", "posterior", "surrogates", *FOUNDATIONS},
    "training": {"archives", "surrogates", "screening", "posterior", *FOUNDATIONS},
    "proposal": {"acquisition", "archives", "energy", "information", "bounds", "fronts", "outcomes"}
    | {"posterior", "protocols"}
    | {"surrogates", "screening", "__init__", *FOUNDATIONS},  # __init__ has the version, and imports nothing
    "campaign": {
        "acquisition",
        "archives",
        "energy",
        "proposal",
        "surrogates",
        "screening",
        "temperature",
        *FOUNDATIONS,
    },
    "simulation": {
        "acquisition",
        "archives",
        "datasets",
        "energy",
        "fronts",
        "posterior",
        "proposal",
        "screening",
        "surrogates",
    }
    | {"temperature", *FOUNDATIONS},
    "report": {"surrogates", "screening", "training", "posterior", *FOUNDATIONS},
}
EVERYTHING = {"cli", "__init__", "__main__"}  # they put the parts together
LIGHTNING = ("training/", "proposal/jobs/", "cli/")
HEAVY = ("pandas", "lightning", "matplotlib", "rdkit", "pykeops", "sklearn", "pyarrow")

MODULES = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.py"))


def part(module):
    """'proposal/propose.py' -> 'proposal', 'errors.py' -> 'errors'."""
    return module.split("/")[0].removesuffix(".py")


def imported(module):
    """Absolute names of all that a module imports, wherever in it: 'beebo_scale.errors.InputError', 'torch'."""
    package = ["beebo_scale", *module.split("/")[:-1]]
    names = set()
    for node in ast.walk(ast.parse((ROOT / module).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            base = [*base, node.module] if node.module else base
            names |= {".".join([*base, alias.name]) for alias in node.names}
    return names


def parts_imported(module):
    """The parts of the package that a module imports; a name of the package itself counts as '__init__'."""
    known = {part(other) for other in MODULES}
    names = [name.split(".")[1:2] for name in imported(module) if name.split(".")[0] == "beebo_scale"]
    return {name[0] if name and name[0] in known else "__init__" for name in names} - {part(module)}


def files_imported(module):
    """The files of the package that a module names in its imports; a folder's face is none of them."""
    known = {"beebo_scale." + path.removesuffix(".py").replace("/", "."): path for path in MODULES}
    found = {known.get(name) or known.get(name.rpartition(".")[0]) for name in imported(module)}
    return {path for path in found if path and not path.endswith("__init__.py")} - {module}


def test_no_files_import_each_other_in_a_circle():
    files = [module for module in MODULES if not module.endswith("__init__.py")]
    TopologicalSorter({module: files_imported(module) for module in files}).prepare()  # raises CycleError


def test_imports_are_read():
    assert "beebo_scale.errors.InputError" in imported("proposal/choose.py")
    assert {"acquisition", "errors", "screening"} <= parts_imported("proposal/choose.py")
    assert "jsonargparse.ArgumentParser" in imported("cli/main.py")
    assert parts_imported("cli/main.py") >= {"errors", "__init__"}  # `from .. import __version__` in a function


@pytest.mark.parametrize("module", [module for module in MODULES if part(module) not in EVERYTHING])
def test_direction_of_imports(module):
    assert part(module) in ALLOWED, f"{module}: say in ALLOWED what it may import"
    assert parts_imported(module) <= ALLOWED[part(module)]


def test_the_table_has_no_circles():
    """Each part imports only parts below it."""
    left = {name: set(parts) for name, parts in ALLOWED.items()}
    while left:
        lowest = [name for name, parts in left.items() if not parts & left.keys()]
        assert lowest, f"a circle among {sorted(left)}"
        for name in lowest:
            del left[name]


@pytest.mark.parametrize("module", MODULES)
def test_lightning_stays_where_it_belongs(module):
    if not module.startswith(LIGHTNING):
        assert not {name for name in imported(module) if name.split(".")[0] in ("lightning", "pytorch_lightning")}


@pytest.mark.process
def test_the_package_is_light_to_import():
    code = f"import sys, beebo_scale; print([name for name in {HEAVY} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
    assert result.stderr == ""


@pytest.mark.process
def test_the_package_can_be_imported_on_windows():
    """Its modules do without what only Unix has (third-party packages mind themselves)."""
    names = [".".join(["beebo_scale", *module.removesuffix(".py").split("/")]) for module in MODULES]
    names = [name.removesuffix(".__init__") for name in names if not name.endswith("__main__")]
    code = f"""
import importlib, os, signal, sys
for name in ("fcntl", "resource", "termios", "pwd"):
    sys.modules[name] = None
for name in {names}:
    importlib.import_module(name)
"""
    result = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


def test_modules_import_each_other_relatively():
    """An absolute import names the package again, and a copy under another name would load two packages."""
    for module in MODULES:
        for node in ast.walk(ast.parse((ROOT / module).read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) and not node.level else []
            assert not [name for name in names if name.split(".")[0] == "beebo_scale"], f"{module}, line {node.lineno}"


def test_folders_of_tests_are_packages():
    tests = Path(__file__).parent
    folders = {path.parent for path in tests.rglob("test_*.py")}
    assert all((folder / "__init__.py").is_file() for folder in folders)
