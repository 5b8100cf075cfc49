"""Mining disguised data: the ordinary algorithms, run on signed-weight counts."""

from ppdm_dask.mine.id3 import ID3
from ppdm_dask.mine.naive_bayes import NaiveBayes

__all__ = ["ID3", "NaiveBayes"]
