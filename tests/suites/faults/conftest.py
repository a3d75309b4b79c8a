"""The agent and real servers, as in tests/agents, for tests that break things on purpose."""

from tests.agents.conftest import agent, agent_file, nginx_sites, sites

__all__ = ["agent", "agent_file", "nginx_sites", "sites"]
