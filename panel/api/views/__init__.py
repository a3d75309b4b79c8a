"""Views of no single app."""
