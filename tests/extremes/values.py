"""Numbers that are hard on a program, and texts that are none."""
import math

# What a double may be, from nothing to its end, with the neighbours of the bounds that the server knows.
SIZES = (0.0, 5e-324, 2.2250738585072014e-308, 1e-300, 1e-160, 1e-154, 1e-75, 1e-12, 1e-6, 0.5, 1.0, 3.0, 1e6, 1e12,
         math.nextafter(1e12, math.inf), 1e13, 1e19, 1e30, math.nextafter(1e30, math.inf), 1e31, 1e37, 1e38, 9.9e74, 1e75, math.nextafter(1e75, math.inf), 1e76, 1e150, 1e154, 1e200,
         1.7976931348623157e308)
ALL = tuple(s * x for x in SIZES for s in (1, -1))
PLAIN = (0.0, 0.25, 0.5, 1.0, -1.0, 2.0)

# Numbers as a client may write them who does not mean them well.
BAD_TOKENS = ("NaN", "Infinity", "-Infinity", "nan", "inf", "1e309", "-1e309", "1e999999999999", "0x10", "00", "01", "1.", ".5", "+1", "1e", "1e+",
              "--1", "1_000", "1,5", "1f", "-", "")
STRANGE_TOKENS = ("1e-324", "5e-324", "-5e-324", "1.7976931348623157e308", "-1.7976931348623157e308", "-0.0", "-0", "9007199254740992",
                  "9007199254740993", "9223372036854775808", "18446744073709551616", "-9223372036854775809", "1e22", "1e-400", "1" + "0" * 399,
                  "0." + "0" * 400 + "1", "1" * 400, "0e999999999", "1E0", "2.5e+0")
OTHER_TOKENS = ('"1"', "true", "null", "[]", "{}", '""', '"NaN"', "[1]")


class Temper:
    """Which numbers a story likes: all kinds, or a few of them again and again, which lets sums and products of them grow."""

    def __init__(self, rng, largest, may_pass, kind=None):
        self.rng, self.bound = rng, largest
        inside = [v for v in ALL if abs(v) <= self.bound]
        self.beyond = [v for v in ALL if abs(v) > self.bound]
        kind = kind or rng.choice(("all", "few", "great", "tiny", "calm"))
        great = [v for v in inside if abs(v) >= min(self.bound, 1e300) / 1e3]
        self.inside = {"all": inside, "few": rng.sample(inside, 4), "great": great + [1.0], "tiny": [v for v in inside if abs(v) <= 1e-12] + [1.0],
                       "calm": list(PLAIN) + rng.sample(inside, 1)}[kind]
        self.share_beyond = rng.choice((0, 0.02, 0.1)) * may_pass

    def number(self):
        if self.beyond and self.rng.random() < self.share_beyond:
            return self.rng.choice(self.beyond)
        if self.rng.random() < 0.3:
            return self.rng.choice(PLAIN)
        x = self.rng.choice(self.inside)
        return x * self.rng.uniform(0.5, 1) if self.rng.random() < 0.2 else x

    def weight(self):
        return abs(self.number()) or 1.0
