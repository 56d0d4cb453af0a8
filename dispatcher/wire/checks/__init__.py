"""Checks of what is stored, for submissions and readers alike: fields, control records, nesting, damaged envelopes."""
