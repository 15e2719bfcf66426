"""Agentbox: places where AI coding agents work safely."""

__version__ = "0.1.0"
