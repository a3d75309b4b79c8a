"""Pages of accounts, by subject."""
