"""One file per tool: `call(context, *, …) -> Answer`, typed, with the docstring that a model reads.

The file's name is the tool's name, the keyword-only parameters are its arguments. Where they differ from
the rest a module says READ_ONLY = False, TERMINAL = True or SCOPE = "…".
"""
