"""A Python with the core installation only; the folder comes first in PYTHONPATH.

``PPDM_LACKING`` names the packages that it lacks, where these are not those of all extras.
"""

import importlib.abc
import os
import sys

from ppdm_dask.extras import EXTRAS

LACKING = os.environ.get("PPDM_LACKING", " ".join(EXTRAS)).split()


class CoreOnly(importlib.abc.MetaPathFinder):
    """Finds that what extras bring is not there."""

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in LACKING:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, CoreOnly())
