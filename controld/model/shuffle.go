package model

import (
	"math/bits"
)

// shuffle is a permutation of the numbers below size. It looks random but follows from the seed
// alone, on every machine and in every version. The log names only the seed of an array's order. It
// permutes the numbers of as many bits as size needs, and walks on from what falls outside.
type shuffle struct {
	size, mask uint64
	shift      int
	rounds     []round
}

// round is x*times + plus, which has an inverse because times is odd.
type round struct{ times, plus uint64 }

func newShuffle(seed uint64, size int) shuffle {
	width := bits.Len64(uint64(max(size, 2) - 1))
	s := shuffle{size: uint64(size), mask: 1<<width - 1, shift: (width + 1) / 2, rounds: make([]round, 4)}
	for i := range s.rounds {
		s.rounds[i] = round{splitmix(&seed) | 1, splitmix(&seed)}
	}
	return s
}

// splitmix returns the next number of the generator of that name (Steele, Lea and Flood, 2014).
func splitmix(state *uint64) uint64 {
	*state += 0x9e3779b97f4a7c15
	z := *state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// at returns the number at a rank below size.
func (s *shuffle) at(rank int) int {
	x := uint64(rank)
	for {
		for _, r := range s.rounds {
			x = (x*r.times + r.plus) & s.mask
			x ^= x >> s.shift
		}
		if x < s.size {
			return int(x) //nolint:gosec // below size, which is an int
		}
	}
}
