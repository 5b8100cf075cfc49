"""Mining disguised data: the ordinary algorithms, run on signed-weight counts.

Names are loaded when they are used: scikit-learn, which learners derive from, takes a second.
"""

from __future__ import annotations

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
