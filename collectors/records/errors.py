"""The one error of the wire: bytes or values a peer sent that cannot be taken."""


class WireError(ValueError):
    """Malformed input from a socket, an upload or a recording; the message names what is wrong."""
