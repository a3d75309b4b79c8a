"""The import rules of ARCHITECTURE.md, held against the code."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from panel.core.messages import Task

ROOT = Path(__file__).resolve().parent.parent
APPS = (
    "core",
    "accounts",
    "audit",
    "hosts",
    "websites",
    "deployments",
    "certificates",
    "rollouts",
    "previews",
    "publishing",
    "placements",
    "failover",
    "fpm",
    "enrollments",
    "imports",
    "benchmarks",
    "comparisons",
    "reports",
    "alerts",
    "api",
    "rendering",
    "remote",
)

# What each package may import of the project. Its own package is always allowed.
MAY_IMPORT = {
    "core": {"agents"},
    "rendering": set(),
    "remote": {"agents", "core"},
    "accounts": {"core", "audit"},
    "audit": {"core", "accounts"},
    "hosts": {"core", "accounts", "audit", "remote", "rendering", "agents"},
    "websites": {"core", "accounts", "audit", "hosts", "rendering", "agents"},
    "deployments": {"core", "accounts", "audit", "hosts", "websites", "rendering", "remote", "agents"},
    "certificates": {"core", "accounts", "audit", "hosts", "websites", "deployments", "rendering", "remote"},
    "rollouts": {"core", "accounts", "audit", "hosts", "websites", "deployments"},
    "placements": {"core", "accounts", "audit", "hosts", "websites", "deployments"},
    "failover": {"core", "accounts", "audit", "hosts", "rendering", "remote", "agents"},
    "fpm": {"core", "accounts", "audit", "hosts", "websites", "deployments", "rendering", "remote", "agents"},
    "enrollments": {"core", "accounts", "audit", "hosts"},
    "publishing": {
        *("core", "accounts", "audit", "hosts", "websites", "deployments", "placements", "rendering", "remote"),
        "agents",
    },
    "previews": {
        *("core", "accounts", "audit", "hosts", "websites", "deployments", "benchmarks", "rendering", "remote"),
        "agents",
    },
    "imports": {"core", "accounts", "audit", "hosts", "websites", "deployments", "rendering", "remote", "agents"},
    "benchmarks": {"core", "accounts", "audit", "hosts", "websites", "deployments", "rendering", "remote", "agents"},
    "comparisons": {"core", "accounts", "audit", "hosts", "websites", "deployments", "benchmarks", "remote", "agents"},
    "reports": {"core", "accounts", "audit", "hosts", "websites", "benchmarks", "agents"},
    "alerts": {
        "core",
        "accounts",
        "hosts",
        "websites",
        "deployments",
        "certificates",
        "rollouts",
        "failover",
        "fpm",
        "benchmarks",
        "reports",
    },
    "agents": set(),
}
# Wiring modules bring the parts together, so they may look further: pages show what other apps know.
WIRING = {"views", "urls", "forms", "serializers", "api", "commands", "filters", "views_detail", "context"}


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def modules() -> Iterator[tuple[str, Path]]:
    for app in APPS:
        for path in sorted((ROOT / "panel" / app).rglob("*.py")):
            yield app, path
    for path in sorted((ROOT / "agents").rglob("*.py")):
        yield "agents", path


def _import_nodes(path: Path) -> Iterator[ast.Import | ast.ImportFrom]:
    """Every import, those inside functions included, those for types only left out."""
    tree = tree_of(path)
    for_types: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            for_types.update(id(child) for line in node.body for child in ast.walk(line))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom) and id(node) not in for_types:
            assert not isinstance(node, ast.ImportFrom) or node.level == 0, f"{path} has a relative import"
            yield node


def imported(path: Path) -> Iterator[tuple[int, str]]:
    """Line and dotted name of every import."""
    for node in _import_nodes(path):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif node.module:
            yield node.lineno, node.module


def package_of(name: str) -> str:
    parts = name.split(".")
    if parts[0] == "agents":
        return "agents"
    return parts[1] if parts[0] == "panel" and len(parts) > 1 and parts[1] in APPS else ""


def is_wiring(path: Path) -> bool:
    relative = path.relative_to(ROOT / "panel") if path.is_relative_to(ROOT / "panel") else path
    return bool(WIRING & {part.removesuffix(".py") for part in relative.parts[1:]}) or any(
        part.startswith(("views", "forms", "serializers", "api")) for part in relative.parts[1:]
    )


def test_packages_import_only_permitted_packages() -> None:
    wrong = []
    for app, path in modules():
        if app == "api" or (app != "agents" and is_wiring(path)):
            continue
        for line, name in imported(path):
            package = package_of(name)
            if package and package != app and package not in MAY_IMPORT[app]:
                wrong.append(f"{path.relative_to(ROOT)}:{line} imports {name}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("app", ["rendering", "remote"])
def test_pure_packages_do_not_import_orm(app: str) -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in sorted((ROOT / "panel" / app).rglob("*.py"))
        for line, name in imported(path)
        if name.split(".")[0] == "django" and not name.startswith(("django.utils", "django.conf"))
    ]
    assert not wrong, "\n".join(wrong)


def test_agent_imports_only_standard_library() -> None:
    import sys

    allowed = sys.stdlib_module_names | {"agents", "_sha2"}  # which Python 3.12 brought
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in sorted((ROOT / "agents").rglob("*.py"))
        for line, name in imported(path)
        if name.split(".")[0] not in allowed
    ]
    assert not wrong, "\n".join(wrong)


def _names() -> dict[str, Path]:
    """Every module of panel and agents by its dotted name."""
    paths = [path for top in ("panel", "agents") for path in sorted((ROOT / top).rglob("*.py"))]
    return {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path for path in paths}


NAMES = _names()


def targets(path: Path) -> Iterator[str]:
    """The modules of this project that the module imports, imports for types only left out."""
    for node in _import_nodes(path):
        if isinstance(node, ast.Import):
            found = [alias.name for alias in node.names]
        else:
            found = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in found:
            known = name if name in NAMES else name.rpartition(".")[0]
            if known in NAMES:
                yield known


def _circles(edges: dict[str, set[str]]) -> list[list[str]]:
    """The strongly connected components of more than one module, or of one that imports itself."""
    reach = {name: _reachable(name, edges) for name in edges}
    groups = {
        frozenset(other for other in reach[name] if name in reach[other]) for name in edges if name in reach[name]
    }
    return sorted(sorted(group) for group in groups)


def _reachable(start: str, edges: dict[str, set[str]]) -> set[str]:
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        for name in edges[waiting.pop()] - seen:
            seen.add(name)
            waiting.append(name)
    return seen


def test_circles_are_found() -> None:
    assert _circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"d"}}) == [["b", "c"], ["d"]]


def test_modules_import_each_other_in_no_circle() -> None:
    edges = {name: set(targets(path)) for name, path in NAMES.items()}
    assert _circles(edges) == []


# Imports inside functions, each with its reason. AppConfig.ready is the place that Django gives for the others.
LATE_IMPORTS = {
    ("panel.benchmarks.statistics.intervals", "scipy.special.stdtrit"): "SciPy, for processes that compute intervals",
    ("panel.core.charts", "vl_convert"): "90 MB, for processes that draw charts",
    ("panel.reports.writers", "panel.reports.writers.paper"): "ReportLab, for processes that write a PDF",
}
# The agent starts anew for many requests: what few of them need is imported where it is needed.
LATE_IMPORTS_OF_THE_AGENT = 30


def _late_imports(path: Path) -> Iterator[str]:
    """What the functions of a module import, those of `AppConfig.ready` left out."""
    tree = tree_of(path)
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if path.name == "apps.py" and function.name == "ready":
            continue
        for node in ast.walk(function):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_imports_inside_functions_have_a_reason() -> None:
    late = {(name, found) for name, path in NAMES.items() if name.startswith("panel") for found in _late_imports(path)}
    assert late == set(LATE_IMPORTS)


def test_imports_inside_functions_of_the_agent_do_not_become_more() -> None:
    found = sum(1 for name, path in NAMES.items() if name.startswith("agents") for _ in _late_imports(path))
    assert found <= LATE_IMPORTS_OF_THE_AGENT


def test_models_of_a_package_are_imported_from_the_package() -> None:
    """`panel.websites.models` has a file for each thing that it describes; others know only the package."""
    packages = tuple(f"{name}." for name, path in NAMES.items() if name.endswith(".models") and path.stem == "__init__")
    assert packages, "the panel has a package of models"
    wrong = [
        f"{name} imports {target}"
        for name, path in NAMES.items()
        for target in targets(path)
        if target.startswith(packages) and not name.startswith(target.rpartition(".")[0])
    ]
    assert not wrong, "\n".join(wrong)


def test_services_start_no_task_by_importing_it() -> None:
    wrong = [name for name, path in NAMES.items() if any(target.endswith(".tasks") for target in targets(path))]
    assert wrong == []


def test_messages_name_tasks_that_exist() -> None:
    functions = {
        f"{name}.{node.name}"
        for name, path in NAMES.items()
        if name.endswith(".tasks")
        for node in tree_of(path).body
        if isinstance(node, ast.FunctionDef) and any(ast.unparse(item) == "shared_task" for item in node.decorator_list)
    }
    assert {task.value for task in Task} <= functions


def test_tasks_are_short() -> None:
    """A task loads, calls one service and does nothing else."""
    for path in sorted((ROOT / "panel").glob("*/tasks.py")):
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.FunctionDef):
                size = (node.end_lineno or 0) - node.lineno
                assert size <= 25, f"{path.relative_to(ROOT)}:{node.lineno} {node.name} is {size} lines long"


def test_code_uses_no_shell_strings() -> None:
    """No shell=True, os.system or os.popen anywhere."""
    wrong = []
    for path in [path for _, path in modules()] + sorted((ROOT / "scripts").glob("*.py")):
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                shell = any(k.arg == "shell" and ast.unparse(k.value) != "False" for k in node.keywords)
                if shell or called in {"os.system", "os.popen", "subprocess.getoutput"}:
                    wrong.append(f"{path}:{node.lineno} {called}")
    assert not wrong, "\n".join(wrong)


def _can_fail(test: ast.AST) -> bool:
    """Whether a test states anything: by assert, by an exception or a page's state that it waits for, by a fixture of
    pytest-django that counts queries, or by a helper that is named for asserting."""
    words = ("raises", "expect", "assert")
    return any(
        isinstance(node, ast.Assert)
        or (isinstance(node, ast.Call) and any(word in ast.unparse(node.func) for word in words))
        for node in ast.walk(test)
    )


def test_tests_contain_assertions() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name} asserts nothing"
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_") and not _can_fail(node)
    ]
    assert not wrong, "\n".join(wrong)


def test_folders_mirror_apps() -> None:
    """Each folder below tests/ is named after an app, or is `agents`, `support` or `suites`."""
    allowed = {*APPS, "agents", "support", "suites"}
    found = {path.parent.name for path in (ROOT / "tests").glob("*/__init__.py")}
    assert found <= allowed, f"move to an app's folder or to tests/suites: {', '.join(sorted(found - allowed))}"
    assert set(APPS) <= found, f"apps without tests: {', '.join(sorted(set(APPS) - found))}"


def test_suites_have_readme() -> None:
    """A suite's README says what it proves, how to run it, how long it takes and where its results are recorded."""
    missing = [path.name for path in (ROOT / "tests" / "suites").glob("[!_]*/") if not (path / "README.md").is_file()]
    assert not missing, f"suites without README.md: {', '.join(sorted(missing))}"


# Words that cannot be the subject of a test name: pronouns, question words, and prepositions without a subject before.
NO_SUBJECT = re.compile(
    "(?:who|whom|whose|whoever|what|whatever|where|it|its|they|them|those|these|there|that|others|nobody|nothing|"
    "everybody|everything|somebody|something|by|over|from|between|through|to|without|with|in|on|under|after|before|"
    "as|and|or|of|for|at|when|while)_"
)
LONGEST_NAME = 90


def _faults_of_name(name: str) -> Iterator[str]:
    if found := NO_SUBJECT.match(name.removeprefix("test_")):
        yield f"begins with {found.group()!r}: name the subject"
    if len(name) > LONGEST_NAME:
        yield f"has {len(name)} characters; at most {LONGEST_NAME}"


def test_names_of_tests_have_a_subject() -> None:
    """A test is named test_<subject>_<behavior>[_when_<condition>], so that a failure says what broke."""
    wrong = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name} {fault}"
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
        for fault in _faults_of_name(node.name)
    ]
    assert not wrong, "\n".join(wrong)
    assert list(_faults_of_name("test_what_is_no_port_is_refused")), "the check itself finds a clause as subject"


MOST_LINES_OF_A_FILE, MOST_LINES_OF_A_FUNCTION = 400, 40


def test_files_have_at_most_400_lines() -> None:
    assert not [path for path in NAMES.values() if len(_lines(path)) > MOST_LINES_OF_A_FILE]


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def test_functions_have_at_most_40_lines() -> None:
    long = [
        f"{name}.{node.name}"
        for name, path in NAMES.items()
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or 0) - node.lineno >= MOST_LINES_OF_A_FUNCTION
    ]
    assert not long


DOORS = {"views", "forms", "serializers", "api"}
WRITES = {"save", "delete", "create", "update", "bulk_create", "bulk_update", "get_or_create", "update_or_create"}
# What is called so on these is a service, or the method of a view.
NO_ROWS = ("self", "kind", "services")
# Of a field whose choices the form narrows for its user, or which only administrators see.
PLACEHOLDER = "queryset"


def _doors() -> Iterator[Path]:
    """Pages, forms and API of every app; panel/api has its own records of requests."""
    for app in APPS:
        for path in sorted((ROOT / "panel" / app).rglob("*.py")):
            parts = {part.removesuffix(".py") for part in path.relative_to(ROOT / "panel" / app).parts}
            if app != "api" and parts & DOORS:
                yield path


def test_views_forms_and_api_write_no_rows() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{node.lineno} {ast.unparse(node.func)}"
        for path in _doors()
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in WRITES
        and ast.unparse(node.func.value).startswith(NO_ROWS) is False
        and not _is_of_a_dictionary(node)
    ]
    assert not wrong, "\n".join(wrong)


def _is_of_a_dictionary(call: ast.Call) -> bool:
    """`context.update(other)`: a queryset's update takes keywords only."""
    return isinstance(call.func, ast.Attribute) and call.func.attr == "update" and bool(call.args)


def test_views_forms_and_api_read_by_selectors() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in _doors()
        for node in _outside_placeholders(tree_of(path))
        if isinstance(node, ast.Attribute) and node.attr == "objects"
    ]
    assert not wrong, "\n".join(wrong)


def _outside_placeholders(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes except rows of a field's class, which are placeholders (`queryset=...`), and empty sets of rows."""
    for node in ast.iter_child_nodes(tree):
        is_empty = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "none"
        if is_empty or (isinstance(node, ast.keyword) and node.arg == PLACEHOLDER):
            continue
        yield node
        yield from _outside_placeholders(node)


MOST_UNTYPED_DICTIONARIES = 100


def test_untyped_dictionaries_stay_at_edges() -> None:
    """Data between parts of the panel has a dataclass or TypedDict; `dict[str, Any]` is for JSON at an edge."""
    files = sorted((ROOT / "panel").rglob("*.py"))
    count = sum(path.read_text(encoding="utf-8").count("dict[str, Any]") for path in files)
    assert count <= MOST_UNTYPED_DICTIONARIES, f"panel/ has {count} dict[str, Any]; at most {MOST_UNTYPED_DICTIONARIES}"


def test_tests_assert_that_a_wait_succeeded() -> None:
    """`eventually` returns whether its condition came true; a test that ignores the result cannot fail."""
    ignored = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Call)
        and ast.unparse(node.value.func) == "eventually"
    ]
    assert not ignored, f"assert the result of eventually(): {', '.join(ignored)}"
