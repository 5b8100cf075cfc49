"""Experiments on perturbed continuous data: metrics of a release, and what it is still good for."""
