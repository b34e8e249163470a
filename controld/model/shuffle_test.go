package model

import (
	"slices"
	"testing"
)

// The order follows from the seed, is a permutation, and differs between arrays.
func TestShuffle(t *testing.T) {
	for _, size := range []int{1, 2, 3, 7, 64, 65, 1000, 100_000} {
		seen, moved := make([]bool, size), 0
		a, b := newShuffle(5, size), newShuffle(6, size)
		for rank := range size {
			n := a.at(rank)
			if n < 0 || n >= size || seen[n] {
				t.Fatalf("size %d: rank %d is %d, out of range or twice", size, rank, n)
			}
			seen[n] = true
			if n != b.at(rank) && n != rank {
				moved++
			}
		}
		if size >= 64 && moved < size*9/10 {
			t.Errorf("size %d: only %d moved", size, moved)
		}
	}
	s := newShuffle(1, 10)
	var got []int
	for rank := range 10 {
		got = append(got, s.at(rank))
	}
	if want := []int{1, 9, 4, 2, 6, 3, 7, 5, 0, 8}; !slices.Equal(got, want) {
		t.Errorf("the order, which is part of what the log means, has changed: %v, want %v", got, want)
	}
}
