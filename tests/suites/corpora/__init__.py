"""Configurations that others published, read and mapped: `make corpora`. Downloaded when asked for, never kept here."""
