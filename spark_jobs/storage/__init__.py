"""Folders on disks and in object stores, and the Delta tables in them."""
