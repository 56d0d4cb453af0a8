"""The demonstration: the whole service on this machine, from an empty stack to the closing report."""
