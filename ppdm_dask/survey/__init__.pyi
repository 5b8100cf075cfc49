from .about import About as About
from .counts import count_files as count_files
from .counts import counted_about as counted_about
from .counts import not_counted as not_counted
from .counts import open_sources as open_sources
from .counts import remarks as remarks
from .counts import write_counts as write_counts
from .disguise import Disguised as Disguised
from .disguise import disguise_file as disguise_file
from .estimate import Answer as Answer
from .estimate import Question as Question
from .estimate import estimate_files as estimate_files
from .field import FieldRules as FieldRules
from .field import import_files as import_files
from .parts import MANIFEST as MANIFEST
from .parts import Sources as Sources
from .priors import Priors as Priors
from .priors import check_prior_labels as check_prior_labels
from .priors import one_prior as one_prior
from .priors import prior_arrays as prior_arrays
from .priors import read_priors as read_priors
from .proposal import Column as Column
from .proposal import Proposal as Proposal
from .proposal import propose_codebook as propose_codebook
from .reports import beside as beside
from .statements import statements as statements

__all__: list[str]
