"""The checks of the battery, one subject per file; each is a generator of failures."""
