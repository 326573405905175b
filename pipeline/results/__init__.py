"""What results are: their axes, coordinates, attributes and units, and how they are shown."""
