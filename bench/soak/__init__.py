"""`make soak`: hours in the life of a store, in minutes, and whether anything grows."""
