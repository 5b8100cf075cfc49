from .checkpoints import require_file as require_file
from .front import choose as choose

__all__: list[str]
