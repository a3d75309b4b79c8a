"""Services for accounts: setup, users, two-factor authentication, tokens."""

from panel.accounts.services.setup import setup_link_path

__all__ = ["setup_link_path"]
