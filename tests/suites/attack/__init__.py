"""Attacks on the panel and on gallop. `make attack` is the long form; the tests here are the short one.

permissions.py  who may change something through which route: one declared table
bodies.py       valid bodies for every operation, from the OpenAPI document and from the pages' own forms
matrix.py       every route x method x caller, with what changed in the database
hostile.py      generated hostile values for every field of every form and schema
floods.py       broken and greedy clients against the panel's web process and against gallop
"""
