"""Domain names of sites in DNS: lookups for plans, and an hourly check for names that stop pointing to their host."""
