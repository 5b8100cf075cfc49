"""The search for randomization matrices: OptRR, its memetic variant, and the certified limit.

DEAP is imported here and nowhere else.
"""

from __future__ import annotations

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
