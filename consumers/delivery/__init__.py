"""Calls of channels: the event loop, the queue of each channel, and in `channels/` the built-in channels."""
