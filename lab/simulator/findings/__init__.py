"""The findings of a run: its log, figures and gaps."""
