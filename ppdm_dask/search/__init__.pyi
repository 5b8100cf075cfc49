from .checkpoints import require_file as require_file
from .optimize import choose as choose

__all__: list[str]
