"""Out again: what a laboratory prints and pours to build a robot."""
