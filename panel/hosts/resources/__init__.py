"""Use of hosts' resources: a reading at least each minute, their history, and what needs attention."""
