"""Use of hosts' resources: one reading each minute, their history, and what needs attention."""
