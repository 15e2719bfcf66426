"""The box Observer: a read-only page about this box, and the sink for its agents' hooks."""
