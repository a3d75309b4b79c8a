"""Pages of hosts. Whoever is signed in may look; only administrators change anything."""
