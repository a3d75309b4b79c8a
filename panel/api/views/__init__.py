"""Views that belong to no single app."""
