"""What a run has shown: the journal of a run, figures, gaps and expectations."""
