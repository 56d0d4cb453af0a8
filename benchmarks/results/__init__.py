"""The page benchmarks/RESULTS.md: what is measured for it, the text of the page, and its pictures."""
