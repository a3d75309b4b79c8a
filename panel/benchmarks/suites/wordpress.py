"""WordPress as the application of the suite `php-application-2020`: the requested pages.
agents/host/wordpress_php.py creates posts, pages and categories with the numbers in the paths.
"""

from __future__ import annotations

POSTS = tuple(f"/?p={number}" for number in range(101, 115))
PAGES = ("/", "/?paged=2", "/?cat=2", "/?cat=3", "/?s=river", *POSTS, "/?page_id=201", "/?page_id=202")
