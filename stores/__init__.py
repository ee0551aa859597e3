"""Durable storage: private files and MongoDB documents."""
