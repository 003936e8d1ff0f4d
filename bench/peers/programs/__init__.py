"""Four programs in Minuet and in other engines: really run, and counted by one rule."""
