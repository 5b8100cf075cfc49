"""Checksums that fit damaged files: what a checksum keeps out is only the first line of defence."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

__all__ = ["seal_again"]

ABOUT = ".about.json"


def seal_again(path: Path) -> None:
    """Give a file the checksum that its program would have given it, if it has a place for one."""
    # What is damaged beyond that is sealed by nobody.
    with suppress(OSError, ValueError, TypeError, KeyError, AssertionError, RecursionError):
        if path.suffix == ".parquet":
            from ppdm_dask.survey.about import seal

            seal(path)
        elif path.suffix == ".json":
            _seal_document(path, {})
        elif (about := path.with_name(path.name + ABOUT)).exists():
            from ppdm_dask.survey.about import file_checksum

            _seal_document(about, {"data_checksum": file_checksum(path)})


def _seal_document(path: Path, changes: dict[str, Any]) -> None:
    content = json.loads(path.read_bytes()) | changes
    if "checksum" not in content:
        return
    if path.name.endswith(ABOUT):
        from ppdm_dask.survey.about import checksum_of

        rest = {key: value for key, value in content.items() if key != "checksum"}
        content["checksum"] = checksum_of(rest)
    else:
        from ppdm_dask.files.documents import seal

        content = seal(content)
    path.write_text(json.dumps(content, ensure_ascii=False), "utf-8", "surrogatepass")
