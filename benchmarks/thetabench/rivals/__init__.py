"""Systems that exist to be compared with: MeshJoin, index nested loops, and what they share."""
