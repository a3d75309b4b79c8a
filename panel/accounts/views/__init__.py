"""Pages of accounts, one module per subject."""
