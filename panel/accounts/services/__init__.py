"""Services of accounts: setup, users, teams, sessions, two-factor authentication, tokens, links, mail server."""

from panel.accounts.services.setup import setup_link_path

__all__ = ["setup_link_path"]
