"""Materials of the benchmarks, as constants: another table of presets moves none of their numbers."""

from geosim import MooneyRivlin, NeoHookean, Yeoh

ECOFLEX_00_30 = MooneyRivlin(c1=41.8e3, c2=10.6e3, density=1070.0)  # [Fang2022]
DRAGON_SKIN_20 = MooneyRivlin(c1=119.0e3, c2=23.0e3, density=1080.0)  # [Fang2022]
DRAGON_SKIN_10 = NeoHookean(mu=87.9e3, density=1070.0)  # Dubied et al., RA-L 2022
DRAGON_SKIN_30 = Yeoh(c1=90.4e3, c2=9082.0, c3=0.0, density=1070.0)  # Marechal et al. 2020, to stretch 2
