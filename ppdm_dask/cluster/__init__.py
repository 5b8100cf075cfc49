"""Running work on many processes: the only place that imports Dask.

Nothing is imported here; ``ppdm_dask.cluster.runner`` loads Dask only once workers are wanted.
"""

from __future__ import annotations
