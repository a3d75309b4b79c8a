"""Domain names of sites in DNS: lookups for plans, and a watch for names that leave their host."""
