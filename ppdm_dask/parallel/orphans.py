"""Plugins on a shared scheduler: named after the client that brought them, and freed if it died."""

# Dask has annotated few of its functions.
# mypy: allow-untyped-calls

from __future__ import annotations

import uuid
from contextlib import suppress
from typing import Any

from distributed import Client

__all__ = ["forget_orphans", "plugin_name"]

PREFIX = "ppdm:"


def plugin_name(client: Client) -> str:
    """Return a new name for what a client brings to the workers."""
    return f"{PREFIX}{client.id}:{uuid.uuid4().hex}"


def forget_orphans(client: Client) -> None:
    """Have workers forget the work of drivers that were killed, which nobody else takes back."""
    for name in client.run_on_scheduler(orphans):
        # Another driver may be at it as well.
        with suppress(ValueError):
            client.unregister_worker_plugin(name)


def orphans(dask_scheduler: Any) -> list[str]:
    """Names of plugins whose client is gone; called in the scheduler."""
    return [
        name
        for name in dask_scheduler.worker_plugins
        if name.startswith(PREFIX) and name.split(":")[1] not in dask_scheduler.clients
    ]
