"""Pages for people: who waits, why, and until when. Made of the door's desks alone."""
