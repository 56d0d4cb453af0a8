"""Providers to rehearse with: FCM and APNs on this machine, over TLS, with answers by rules.

A fake validates what it gets as the provider does, and knows what it accepted. Its answers come from the verdict tables
of dispatcher/channels. It needs fairlane[lab]. Connections are in `wire`; each provider has a folder.
"""
