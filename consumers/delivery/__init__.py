"""Calls of channels: the event loop, the queue of each channel, and the built-in channels in `channels/`."""
