"""Certificates on the disks of hosts, whoever put them there: read, shown, and named before they expire."""
