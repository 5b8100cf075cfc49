"""The names under which writers are known to experiments; see :mod:`ppdm_dask.files.atomic`."""

from ppdm_dask.files.atomic import replacing, write_text

__all__ = ["replacing", "write_text"]
