"""Long computations in batches of repeats, stored as they finish: no Dask."""
