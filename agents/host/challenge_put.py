"""Operation `challenge_put`: write files of ACME challenges (challenge.py)."""

from agents.host.challenge import put as run

__all__ = ["run"]
