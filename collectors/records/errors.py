"""The errors of the wire: bytes or values a peer sent that cannot be taken."""


class WireError(ValueError):
    """Malformed input from a socket, an upload or a recording; the message names what is wrong."""


class RankTaken(WireError):
    """A process says that it is a rank whose process is another one that lives and is connected."""


class NewerError(WireError):
    """Sound, yet of a version this side does not read: it must be upgraded, the sender may keep what it has."""
