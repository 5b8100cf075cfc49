"""Experiments with searches for randomization matrices."""
