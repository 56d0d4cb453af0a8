"""Asks every broker and every bookie of a Pulsar estate at once, and keeps the answers as they came.

`estate.reading` makes facts of the answers.
"""
