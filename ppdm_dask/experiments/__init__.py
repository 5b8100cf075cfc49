"""Recipes and the runs made of them.

Nothing is imported here: a worker loads :mod:`ppdm_dask.engine.cells` before it knows its work.
"""
