import os

# Tensors of tests are small: OpenMP's threads, of torch and scikit-learn, spend ten times the CPU in waiting for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")
