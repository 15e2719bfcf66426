"""What Agentbox's speed is measured by: ``make bench``, or ``python -m benchmarks [GROUP ...]``.

Nearly every figure is a ratio against a peer that does the same work in the same run. It needs root, an engine, and a
machine with nothing else to do.
"""
