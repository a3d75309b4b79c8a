"""Rust packages have allowed licenses and come from the package registry."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[3]


def loaded() -> ModuleType:
    spec = importlib.util.spec_from_file_location("licences", ROOT / "scripts" / "licences.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


licences = loaded()


@pytest.mark.parametrize(
    ("expression", "allowed"),
    [
        ("MIT", True),
        ("GPL-3.0-only", False),
        ("MIT OR GPL-3.0-only", True),
        ("MIT AND GPL-3.0-only", False),
        ("MIT/Apache-2.0", True),
        ("(MIT OR Apache-2.0) AND Unicode-3.0", True),
        ("(MIT OR Apache-2.0) AND LGPL-2.1", False),
        ("MIT AND LGPL-2.1 OR ISC", True),
        ("Apache-2.0 WITH LLVM-exception", True),
        ("GPL-2.0 WITH Classpath-exception-2.0", False),
    ],
)
def test_license_expression_is_satisfied_by_allowed_list_only(expression: str, allowed: bool) -> None:
    assert licences.permits(expression) is allowed


@pytest.mark.parametrize("expression", ["", "AND MIT", "(MIT", "MIT)", "MIT Apache-2.0"])
def test_invalid_license_expression_is_rejected(expression: str) -> None:
    with pytest.raises(licences.Malformed):
        licences.permits(expression)


def test_package_requires_license_and_registry() -> None:
    good = {"source": "registry+https://registry.example", "license": "MIT"}
    assert licences.problem(good) == ""
    assert licences.problem({**good, "source": None}) == ""
    assert "names no licence" in licences.problem({**good, "license": None})
    assert "not from the package registry" in licences.problem({**good, "source": "git+https://git.example/a"})
    assert "not allowed" in licences.problem({**good, "license": "AGPL-3.0"})
    assert "cannot be read" in licences.problem({**good, "license": "MIT AND"})


def test_native_packages_have_allowed_licenses() -> None:
    found = licences.packages()
    assert len(found) > 50
    assert [licences.problem(package) for package in found if licences.problem(package)] == []
