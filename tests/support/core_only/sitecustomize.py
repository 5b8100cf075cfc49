"""A Python with the core installation only; the folder comes first in PYTHONPATH.

``PPDM_LACKING`` names the packages that it lacks, where these are not those of all extras.
"""

import os
import sys
from importlib.machinery import PathFinder

from ppdm_dask.extras import EXTRAS

LACKING = os.environ.get("PPDM_LACKING", " ".join(EXTRAS)).split()


class CoreOnly(PathFinder):
    """Finds nothing of what extras bring."""

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name.partition(".")[0] in LACKING:
            return None
        return super().find_spec(name, path, target)


sys.meta_path[sys.meta_path.index(PathFinder)] = CoreOnly
