"""Take envelopes out of lanes and deliver them: attachments, bounded prefetch, channels, settling, upkeep.

What to send next is decided in `dispatcher.engine`, without I/O; processes, heartbeats and metrics are in
`fairlane.worker`.
"""
