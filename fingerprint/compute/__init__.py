"""Arrays and tables on a host or a CUDA device: what NumPy and CuPy, pandas and cuDF need in common, and our own kernels."""
