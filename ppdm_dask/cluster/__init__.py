"""Running work on many processes: the only place that imports Dask.

Names are loaded when they are used: what is here loads Dask only once workers are wanted.
"""

from __future__ import annotations

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
