"""The local-global pipeline of [Fang2022]."""
