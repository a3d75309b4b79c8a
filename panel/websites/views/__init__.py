"""Pages of sites."""
