"""Content of sites: releases from an archive or a git repository, published to all hosts of a site or to none."""
