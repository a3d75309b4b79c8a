"""Characters that Apache's rewrite flag B encodes in inserted text: one list for each use of the text.

The lists differ because nginx encodes inserted text only in the query of a rewrite. The flag BCTLS additionally encodes
spaces and control characters.
"""

# Captures in the query of a rewrite: what nginx encodes there, except for " and non-ASCII bytes, which the flag cannot
# name.
REWRITES = "#%&+;<>?"
# Variables in the query of a fallback: nginx inserts them as they are, but httpd would end the query at a #.
FALLBACKS = "#"
# A path that a rule requests anew: only characters that httpd would not read as part of the path.
REDIRECTS = "%?#"
