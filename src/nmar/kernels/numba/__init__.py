"""Compiled kernels for the CPU; ``kernels.py`` has the functions of the spec, the other modules are their parts."""
