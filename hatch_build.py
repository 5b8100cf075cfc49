"""Put the recipes and the cluster profiles into the wheel, below ``ppdm_dask/_data``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FOLDERS = ("pipelines", "cluster")
SUFFIXES = {".cron", ".md", ".service", ".sh", ".timer", ".toml", ".yaml"}
FILES = ("docs/errata.md",)  # shown on the pages of runs


class DataHook(BuildHookInterface[Any]):
    """Add the data folders that the checkout has.

    ``force-include`` in pyproject.toml would copy them into editable installs too, where the copy
    grows stale while the checkout is edited.
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Declare the recipes, profiles, schedules and pages, unless the build is editable."""
        if version == "editable":
            return
        root = Path(self.root)
        for folder in FOLDERS:
            for path in sorted((root / folder).rglob("*")):
                if path.is_file() and (path.suffix in SUFFIXES or path.stem == "Dockerfile"):
                    inside = path.relative_to(root).as_posix()
                    build_data["force_include"][str(path)] = f"ppdm_dask/_data/{inside}"
        for name in FILES:
            build_data["force_include"][str(root / name)] = f"ppdm_dask/_data/{name}"
