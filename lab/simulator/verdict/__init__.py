"""The verdict on a run: its journal, figures and gaps."""
