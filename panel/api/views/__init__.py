"""API views that belong to no single app."""
