"""WordPress as the application of `php-application-2020`: its requested pages. Pure.

agents/host/wordpress_php.py creates them with these numbers.
"""

from __future__ import annotations

POSTS = tuple(f"/?p={number}" for number in range(101, 115))
PAGES = ("/", "/?paged=2", "/?cat=2", "/?cat=3", "/?s=river", *POSTS, "/?page_id=201", "/?page_id=202")
