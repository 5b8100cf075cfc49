"""Mining disguised data: the ordinary algorithms, run on signed-weight counts."""

from ppdm_dask.mine.documents import read_model, write_model
from ppdm_dask.mine.evaluation import evaluate
from ppdm_dask.mine.id3 import ID3
from ppdm_dask.mine.latent import LatentClasses
from ppdm_dask.mine.naive_bayes import NaiveBayes
from ppdm_dask.mine.personal import score_by_personal
from ppdm_dask.mine.rules import Rule, Rules, association_rules
from ppdm_dask.mine.selection import Disguise, disguised_accuracy, one_standard_error
from ppdm_dask.mine.tan import TAN

__all__ = [
    "ID3",
    "TAN",
    "Disguise",
    "LatentClasses",
    "NaiveBayes",
    "Rule",
    "Rules",
    "association_rules",
    "disguised_accuracy",
    "evaluate",
    "one_standard_error",
    "read_model",
    "score_by_personal",
    "write_model",
]
