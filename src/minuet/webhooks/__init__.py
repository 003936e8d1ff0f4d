"""Webhooks: tell people outside of approvals and failures, from a durable outbox."""
