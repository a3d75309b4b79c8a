"""Operation `challenge_remove`: delete files of ACME challenges (challenge.py)."""

from agents.host.challenge import remove as run

__all__ = ["run"]
