"""The verdict on a run: its journal, figures, gaps and expectations."""
