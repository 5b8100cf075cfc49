"""Mining disguised data: the ordinary algorithms, run on signed-weight counts."""

from ppdm_dask.mine.naive_bayes import NaiveBayes

__all__ = ["NaiveBayes"]
