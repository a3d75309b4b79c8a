"""Use of hosts' resources (CPU, memory, disks): a reading at least each minute, its problems, and a history."""
