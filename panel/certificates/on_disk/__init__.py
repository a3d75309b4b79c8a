"""Certificates on the disks of hosts, managed by Paddock or not: readings, pages, and the selection for alerts."""
