"""Commands as users see them: options and help, no more. `handlers` has what they do, and is imported when one runs."""
