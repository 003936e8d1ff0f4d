"""Blob stores: places beside the store that keep large contents, a folder or a bucket of S3."""
