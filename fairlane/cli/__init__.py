"""The `fairlane` command; each subcommand is a module, imported only when used."""
