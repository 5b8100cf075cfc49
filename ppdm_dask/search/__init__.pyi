from .cheapest import Cheapest as Cheapest
from .cheapest import Distance as Distance
from .cheapest import cheapest_both as cheapest_both
from .cheapest import cheapest_epsilon as cheapest_epsilon
from .cheapest import cheapest_posterior as cheapest_posterior
from .cheapest import cheapest_trait as cheapest_trait
from .cheapest import distances as distances
from .checkpoints import require_file as require_file
from .optimize import choose as choose

__all__: list[str]
