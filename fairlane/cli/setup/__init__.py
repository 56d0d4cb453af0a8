"""Commands that set Fairlane up: stack, provision, doctor, settings, demo, tuning."""
