"""Checks of a submission by its channel: the task's message as it travels, and each of its targets.

Sending uses none of this.
"""
