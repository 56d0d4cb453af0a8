"""Take envelopes out of lanes and deliver them: attachments, bounded prefetch, channels, settling."""
