"""Pages: a run beside what its papers claim, in one file that needs nothing else."""

from __future__ import annotations

from ppdm_dask.report.pages import write_report, write_reproduction

__all__ = ["write_report", "write_reproduction"]
