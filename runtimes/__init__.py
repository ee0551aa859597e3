"""Adapters to agent runtimes: one protocol, one package for each runtime."""
