"""The Pulsar estate under the service: how it is seen, checked, guarded, moved, sized and captured.

`rules`, `plans` and `sizing` are pure; `facts` asks the servers. Nothing of dispatch needs this floor.
"""
