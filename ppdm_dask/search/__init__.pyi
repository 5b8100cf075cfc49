from .cheapest import Cheapest as Cheapest
from .cheapest import Distance as Distance
from .cheapest import cheapest_both as cheapest_both
from .cheapest import cheapest_epsilon as cheapest_epsilon
from .cheapest import cheapest_posterior as cheapest_posterior
from .cheapest import cheapest_trait as cheapest_trait
from .cheapest import distances as distances
from .checkpoints import require_file as require_file
from .fronts import plot_front as plot_front
from .joint import JointDesign as JointDesign
from .joint import joint_design as joint_design
from .joint import joint_front as joint_front
from .optimize import choose as choose
from .regret import Regret as Regret
from .regret import regret as regret
from .robust import Robust as Robust
from .robust import robust_design as robust_design
from .scenarios import confidence_priors as confidence_priors
from .scenarios import plausible_prior as plausible_prior
from .scenarios import prior_ball as prior_ball

__all__: list[str]
