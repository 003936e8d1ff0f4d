"""Durable functions: workflows written as code, whose steps and waits are kept in a journal."""
