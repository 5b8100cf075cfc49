"""The Client of Dask that is active where we are called."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from distributed import Client as Client

__all__ = ["active_client"]


def active_client() -> Client | None:
    """The client that Dask itself would take; None if there is none.

    Nothing is imported for it: whoever made a client has done that.
    """
    module = sys.modules.get("distributed.client")
    return None if module is None else cast("Client | None", module._get_global_client())
