import os

# Before torch is imported anywhere: tests are small, and several processes may share the machine.
os.environ.setdefault("OMP_NUM_THREADS", "1")

from hypothesis import settings

settings.register_profile("reproducible", derandomize=True, deadline=None, max_examples=40)
settings.load_profile("reproducible")
