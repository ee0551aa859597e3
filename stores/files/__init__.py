"""Private files beneath a state root: atomic, durable, never through a symbolic link."""
