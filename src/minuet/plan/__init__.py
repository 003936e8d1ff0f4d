"""Compiled workflows: verify, digest and render them."""
