"""Files that users write and read: robot.toml, actuation files, meshes with regions, complete results."""
