"""The CUDA backend: arrays of PyCUDA, kernels compiled on first use.

Importing this package, or any module in it, imports neither PyCUDA nor a driver: that happens when a device is first
asked for (see `device`).
"""
