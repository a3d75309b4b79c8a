"""The operation that puts files of ACME challenges in place (challenge.py)."""

from agents.host.challenge import put as run

__all__ = ["run"]
