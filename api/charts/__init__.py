"""What the web page draws, made small enough to be drawn: documents of arrays, never a row a rank and step."""
