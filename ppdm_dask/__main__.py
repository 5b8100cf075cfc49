"""``python -m ppdm_dask`` is the command ``ppdm``."""

from __future__ import annotations

import sys

from ppdm_dask.cli import main

if __name__ == "__main__":
    # The guard matters: worker processes of a cluster import this module under another name.
    sys.exit(main())
