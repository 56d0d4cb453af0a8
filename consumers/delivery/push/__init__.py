"""The channels `fcm` and `apns`: one request per target over HTTP/2.

One module per provider says how it is asked; the rest is shared. What an answer means and how a message is rendered is
in dispatcher/channels; connections are in consumers/delivery/http2.
"""
