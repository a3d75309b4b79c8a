"""Every change to accounts, by subject: setup, users, second_factor, tokens."""

from panel.accounts.services.setup import setup_link_path

__all__ = ["setup_link_path"]
