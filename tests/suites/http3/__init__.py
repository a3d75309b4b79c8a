"""gallop's HTTP/3 with clients that others wrote."""
