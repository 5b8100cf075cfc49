from .inspection import Finding as Finding
from .inspection import inspect_cluster as inspect_cluster
from .keeping import pool_kept as pool_kept
from .kinds import Profile as Profile
from .kinds import load_profile as load_profile
from .kinds import profile_schema as profile_schema
from .perturbing import perturb_file_in_parts as perturb_file_in_parts
from .security import make_certificates as make_certificates
from .security import write_certificates as write_certificates
from .spread import Place as Place

__all__: list[str]
