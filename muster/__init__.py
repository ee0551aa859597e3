"""Muster keeps coding-agent sessions alive and honest on Temporal."""
