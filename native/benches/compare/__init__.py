"""Measures gallop beside other web servers in one call; `python3 -m compare --help` from native/benches."""
