from .cheapest import Cheapest as Cheapest
from .cheapest import cheapest_epsilon as cheapest_epsilon
from .cheapest import cheapest_posterior as cheapest_posterior
from .cheapest import cheapest_trait as cheapest_trait
from .checkpoints import require_file as require_file
from .optimize import choose as choose

__all__: list[str]
