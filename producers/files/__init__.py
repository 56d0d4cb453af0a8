"""Audiences and tasks from files and standard input. What makes a target valid is in `producers.submit.validation`."""
