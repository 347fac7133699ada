"""Controls to measures: how measures change, how far off they are, what to command to reach a goal, control loops."""
