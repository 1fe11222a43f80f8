"""What tables do with a change of a row, and how a node looks into the table above it."""
