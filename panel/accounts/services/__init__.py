"""Every change to accounts, by subject: setup, users, second_factor, tokens."""
