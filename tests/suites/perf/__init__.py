"""Benchmarks of the panel itself: `make perf`, or `python -m tests.suites.perf NAME...` for some.

Nothing is asserted on time; every figure is printed beside a peer or a limit measured in the same call, interleaved, as
medians.
"""
