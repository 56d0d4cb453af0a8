"""Requests over HTTP/2: the port of one method, and the client behind it that uses pycurl.

What a provider's answers mean belongs to its channel. Nothing here knows targets, envelopes or verdicts.
"""
