"""The `minuet` command.

`arguments` says what can be written, `main` finds the command and turns errors into exit codes,
and each group of commands is a module that is imported when it is called. What people read is
made in `output` and `progress`, what is wrong is printed by `problems`.
"""
