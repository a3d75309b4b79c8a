"""Certificates on the disks of hosts, managed by Paddock or not: reading them, pages, and the choice for alerts."""
