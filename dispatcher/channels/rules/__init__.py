"""Rules by which providers refuse a final request. Submission and the fakes apply the same ones."""
