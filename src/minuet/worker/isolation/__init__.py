"""Attempts in processes of their own: they can be killed, and what they break is theirs."""
