"""One file per thing that is hooked inside a training process, found by walking this folder.

A hook has `NEEDS`, the module that must be imported before it, and `install(session, part)`, which puts
its patches in through `part` so that they can be taken out again. What it calls inside training it wraps
with `part.guard`: the first exception switches the part off and is said in the rank's notes.
"""
