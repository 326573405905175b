"""Results have axes, coordinates, attributes and units, and are shown as text and in notebooks."""
