"""Forms of sites and their parts."""
