"""Random faults on the real stack, and a checker that knows nothing of Fairlane's ledger.

plan makes the faults from a seed, faults applies them, scene has the processes they hit, evidence reads what was left
behind, checker judges it, report shows the result.
"""
