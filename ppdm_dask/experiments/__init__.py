"""Recipes and the runs made of them.

Names are loaded when they are used: a worker loads :mod:`ppdm_dask.engine.cells` before it knows
its work.
"""

from __future__ import annotations

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
