"""What keeps a box alive: supervisor, tmux, the lead's launcher and the probe.

Standard library only: the supervisor lives as long as the box and has to stay small.
"""
