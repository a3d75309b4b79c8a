"""Pages of hosts. All users can read; only administrators can change."""
