"""Agents that speak the Agent Client Protocol, each owned by a sidecar that outlives workers.

`adapter` is the worker's side, `sidecar` the process, `scripted_agent` an agent to try it with.
"""
