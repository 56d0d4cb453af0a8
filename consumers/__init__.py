"""Takes envelopes out of lanes and delivers them: attachments, bounded prefetch, channels, settling."""
