"""Studies: many designs of one robot, solved apart from each other, measured, compared, optimised."""
