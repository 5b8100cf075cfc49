"""Sweeps over designs: the experiments of [ZhanMatwin]_ and [ZhanDu]_."""
