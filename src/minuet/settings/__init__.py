"""Settings: what the environment says about how Minuet runs, read once when a process starts.

`table` declares every setting; `read` reads them, refuses wrong values all at once, and says
where each value comes from. Options on the command line win over settings.
"""

from minuet.settings.read import Settings, find_unknown, is_true, masked, read_settings

__all__ = ["Settings", "find_unknown", "is_true", "masked", "read_settings"]
