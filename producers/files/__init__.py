"""Read audiences and tasks from files and standard input. The rules for targets are in
`producers.submit.validation`."""
