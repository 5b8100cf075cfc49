from .documents import read_model as read_model
from .documents import write_model as write_model
from .evaluation import evaluate as evaluate
from .id3 import ID3 as ID3
from .latent import LatentClasses as LatentClasses
from .naive_bayes import NaiveBayes as NaiveBayes
from .personal import score_by_personal as score_by_personal
from .rules import Rule as Rule
from .rules import Rules as Rules
from .rules import association_rules as association_rules
from .selection import Disguise as Disguise
from .selection import disguised_accuracy as disguised_accuracy
from .selection import one_standard_error as one_standard_error
from .tan import TAN as TAN

__all__: list[str]
