"""Pages: a run beside what its papers claim, in one file that needs nothing else."""

from ppdm_dask.report.html.pages import write_report, write_reproduction

__all__ = ["write_report", "write_reproduction"]
