"""Send envelopes into the partitions of a lane, tuned and bounded. Nothing here knows what a submission is."""
