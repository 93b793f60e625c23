"""Tests of mptctl; what has to be set before anything imports torch."""

import os

# The processes of a run of the suite share a few cores. Threads that wait would burn them, so they wait asleep.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
