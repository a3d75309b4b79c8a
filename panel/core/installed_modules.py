"""Loader of the Celery application that imports only installed modules."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

from celery.loaders.app import AppLoader


class InstalledModules(AppLoader):
    """Imports modules only from Python's path; Celery's own loader searches the current folder first."""

    def import_from_cwd(self, module: str, imp: Any = None, package: str | None = None) -> ModuleType:
        return importlib.import_module(module, package)
