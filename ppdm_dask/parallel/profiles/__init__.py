"""Cluster profiles: where a run computes. One module a kind; a new kind is one module and a page.

Nothing here loads Dask before a pool is asked for.
"""

from ppdm_dask.parallel.profiles.base import KINDS, Profile, load_profile, register
from ppdm_dask.parallel.profiles.local import LocalProfile
from ppdm_dask.parallel.profiles.scheduler import SchedulerProfile
from ppdm_dask.parallel.profiles.slurm import SLURMProfile
from ppdm_dask.parallel.profiles.ssh import SSHProfile

__all__ = [
    "KINDS",
    "LocalProfile",
    "Profile",
    "SLURMProfile",
    "SSHProfile",
    "SchedulerProfile",
    "load_profile",
    "register",
]
