"""The laboratory: what rehearses and measures. The local stack, the demo, fakes of providers, the simulator.

Nothing in production needs this floor.
"""
