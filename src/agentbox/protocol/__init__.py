"""Shapes that leave a box: read by the page, by the host and by tests."""

from .events import Event

__all__ = ["Event"]
