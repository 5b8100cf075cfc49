"""A Python with the core installation only; the folder comes first in PYTHONPATH."""

import importlib.abc
import sys

from ppdm_dask.extras import EXTRAS


class CoreOnly(importlib.abc.MetaPathFinder):
    """Finds that what extras bring is not there."""

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in EXTRAS:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, CoreOnly())
