"""Privacy-preserving data mining by randomization, on Dask.

A randomization design is a column-stochastic matrix P with ``reported = P @ true``; estimates,
miners and privacy measures all follow from it. The public names are those of ``__init__.pyi``; they
are imported when they are first used, so that ``import ppdm_dask`` costs next to nothing.
"""

from __future__ import annotations

import logging
from typing import Any

import lazy_loader

from ppdm_dask import _moved, extras
from ppdm_dask._moved import moved_attribute
from ppdm_dask.extras import missing

__version__ = "0.1.0"

_public, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

_EARLIER = dict.fromkeys(("Proportion", "estimate_proportions", "proportion"), "inference.earlier")


def __getattr__(name: str) -> Any:
    try:
        return moved_attribute(__name__, _EARLIER, name) if name in _EARLIER else _public(name)
    except ModuleNotFoundError as error:
        if (told := missing(error, f"ppdm_dask.{name}")) is not None:
            raise told from None
        raise


# A library shows no log by itself: the program that uses it adds a handler.
logging.getLogger(__name__).addHandler(logging.NullHandler())

_moved.install()
extras.install()
