package sim

import (
	"math"
	"slices"
)

// sortNumbers sorts values as slices.Sort does. Results consist mostly of hundreds of thousands of
// times and slowdowns, none of them negative. Those are sorted by their bits, digit by digit,
// several times as fast as by comparison.
func sortNumbers(values []float64) {
	keys := make([]uint64, len(values), 2*len(values))
	for i, v := range values {
		keys[i] = math.Float64bits(v)
		if keys[i] > math.Float64bits(math.MaxFloat64) { // negative, infinite or not a number
			slices.Sort(values)
			return
		}
	}
	for i, k := range sortBits(keys) {
		values[i] = math.Float64frombits(k)
	}
}

// sortBits sorts keys by digits, the least significant first. It may use the capacity of keys, and
// returns the sorted slice.
func sortBits(keys []uint64) []uint64 {
	const (
		digit = 11
		few   = 256 // fewer are sorted as fast by comparison
	)
	n := len(keys)
	if n < few {
		slices.Sort(keys)
		return keys
	}
	other := slices.Grow(keys, n)[n : 2*n]
	for shift := 0; shift < 64; shift += digit {
		var count [1 << digit]int
		for _, k := range keys {
			count[k>>shift&(1<<digit-1)]++
		}
		if count[keys[0]>>shift&(1<<digit-1)] == n {
			continue // all have the same digit
		}
		at := 0
		for d, c := range count {
			count[d], at = at, at+c
		}
		for _, k := range keys {
			d := k >> shift & (1<<digit - 1)
			other[count[d]] = k
			count[d]++
		}
		keys, other = other, keys
	}
	return keys
}
