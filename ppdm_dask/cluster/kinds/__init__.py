"""Cluster profiles: where a run computes. One module a kind; a new kind is one module and a page.

Nothing here loads Dask before a pool is asked for.
"""

from __future__ import annotations

from ppdm_dask.cluster.kinds.base import (
    KINDS,
    Profile,
    load_profile,
    profile_from_config,
    profile_schema,
    register,
)
from ppdm_dask.cluster.kinds.local import LocalProfile
from ppdm_dask.cluster.kinds.scheduler import SchedulerProfile
from ppdm_dask.cluster.kinds.slurm import SLURMProfile
from ppdm_dask.cluster.kinds.ssh import SSHProfile

__all__ = [
    "KINDS",
    "LocalProfile",
    "Profile",
    "SLURMProfile",
    "SSHProfile",
    "SchedulerProfile",
    "load_profile",
    "profile_from_config",
    "profile_schema",
    "register",
]
