"""Which differences compiled loops and their plain twins take for none.

They live beside the kernels, since machine code is renewed where a source of this folder changes.
"""

from __future__ import annotations

__all__ = ["ENTROPY_TIE", "FLOOR_ROUNDING", "SCORE_TIE"]

SCORE_TIE = 1e-9
"""Log scores of naive Bayes closer than this tie, and the class that comes first wins."""

FLOOR_ROUNDING = 1e-12
"""An estimate this little below naive Bayes' floor is at it, and not counted as raised."""

ENTROPY_TIE = 1e-10
"""Scores of ID3 (nats a record) this close to the best tie, and the first attribute wins."""
