"""What the papers claim, as data, and what the results of runs say to it."""
