"""Content of sites: releases from an archive or git, published to all hosts of a site at once."""
