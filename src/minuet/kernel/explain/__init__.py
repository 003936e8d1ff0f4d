"""Why a node ran, was skipped, waits or failed."""
