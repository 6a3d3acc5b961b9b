"""For all tests: one thread a process, no windows."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported; tests run in two processes
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("MPLBACKEND", "agg")
