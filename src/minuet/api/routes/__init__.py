"""The routes, one module for each noun. They are thin: `app` does the work."""
