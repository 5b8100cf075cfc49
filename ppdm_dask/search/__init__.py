"""The search for randomization matrices: OptRR, its memetic variant, and the certified limit.

DEAP is imported here and nowhere else.
"""
