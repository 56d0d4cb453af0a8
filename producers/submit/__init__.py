"""One submission from lease to seal: accept, cut, announce, checkpoint. Publishing is in `producers.publish`."""
