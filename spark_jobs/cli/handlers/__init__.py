"""The work of the commands of tables. Spark is imported with it, after `requires` of the command has looked for it."""
