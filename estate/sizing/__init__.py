"""Sizes and settings of an estate that follow from its load, each with its reason.

Needs go in, figures and the texts of files come out. What cannot be known from the needs is marked as assumed.
"""
