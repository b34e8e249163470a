package topology

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func TestOpenBit(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 2000 {
		n := 1 + r.IntN(200)
		var want []bool
		words := make([]uint64, (n+64)/64)
		for i := range n {
			on := r.IntN(2) == 0
			want = append(want, on)
			if on {
				words[i/64] |= 1 << (i % 64)
			}
		}
		at := r.IntN(n + 1)
		want = slices.Insert(want, at, false)
		openBit(words, at)
		for i, on := range want {
			if words[i/64]&(1<<(i%64)) != 0 != on {
				t.Fatalf("%d bits, one put in at %d: bit %d is wrong", n, at, i)
			}
		}
	}
}
