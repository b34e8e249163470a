package drf

import (
	"cmp"
	"math"
	"math/big"
	"math/bits"
)

// Fraction is an exact rational number. It never changes. The zero value is 0.
//
// Every cycle settles the tree again. Nearly all of its numbers are parts of the live cluster or
// sums of such parts, so their numerators and denominators fit 64 bits. So fractions are kept in 64
// bits, unreduced while they fit. math/big takes only the numbers that do not fit even in lowest
// terms. Which form a number has says nothing about it: operations are exact in both.
type Fraction struct {
	num, den int64    // den 0 stands for 1
	rat      *big.Rat // if it does not fit; the rest is unused then
}

// zero and one are the smallest and the largest part of a whole.
var zero, one = fraction(0, 1), fraction(1, 1)

// fraction returns n/d; d must be positive.
func fraction(n, d int64) Fraction { return Fraction{num: n, den: d} }

// Rat returns the same number in lowest terms; the caller may change it.
func (f Fraction) Rat() *big.Rat {
	if f.rat != nil {
		return new(big.Rat).Set(f.rat)
	}
	return big.NewRat(f.num, f.below())
}

// String writes it in lowest terms, as a/b.
func (f Fraction) String() string { return f.Rat().String() }

// below is the denominator.
func (f *Fraction) below() int64 { return max(1, f.den) }

// Sign returns -1, 0 or 1.
func (f Fraction) Sign() int {
	if f.rat != nil {
		return f.rat.Sign()
	}
	return cmp.Compare(f.num, 0)
}

// Cmp returns -1, 0 or 1 as f is below, equal to or above g.
func (f Fraction) Cmp(g Fraction) int { return f.cmp(&g) }

func (f *Fraction) cmp(g *Fraction) int {
	if f.rat != nil || g.rat != nil {
		return f.Rat().Cmp(g.Rat())
	}
	hi1, lo1 := wideProduct(f.num, g.below())
	hi2, lo2 := wideProduct(g.num, f.below())
	return cmp.Or(cmp.Compare(hi1, hi2), cmp.Compare(lo1, lo2))
}

// Of returns the most whole things that are within a part of so many; neither is negative.
func (f Fraction) Of(n int64) int64 {
	if f.rat == nil {
		hi, lo := bits.Mul64(uint64(f.num), uint64(n))
		below := uint64(f.below())
		if hi >= below {
			return math.MaxInt64
		}
		q, _ := bits.Div64(hi, lo, below)
		return int64(min(q, math.MaxInt64))
	}
	q := new(big.Int).Mul(f.rat.Num(), big.NewInt(n))
	if q.Quo(q, f.rat.Denom()); !q.IsInt64() {
		return math.MaxInt64
	}
	return q.Int64()
}

// Plus returns f + g.
func (f Fraction) Plus(g Fraction) Fraction {
	switch {
	case f.Sign() == 0:
		return g
	case g.Sign() == 0:
		return f
	}
	if f.rat == nil && g.rat == nil {
		if sum, ok := add(&f, &g); ok {
			return sum
		}
		f, g = f.reduced(), g.reduced()
		if sum, ok := add(&f, &g); ok {
			return sum
		}
	}
	sum := f.Rat()
	return narrow(sum.Add(sum, g.Rat()))
}

// Minus returns f - g.
func (f Fraction) Minus(g Fraction) Fraction { return f.Plus(g.Times(fraction(-1, 1))) }

// Times returns f * g.
func (f Fraction) Times(g Fraction) Fraction {
	if f.rat == nil && g.rat == nil {
		if p, ok := multiply(&f, &g); ok {
			return p
		}
		f, g = f.reduced(), g.reduced()
		x, y := fraction(f.num, g.den).reduced(), fraction(g.num, f.den).reduced()
		if p, ok := multiply(&x, &y); ok {
			return p
		}
	}
	p := f.Rat()
	return narrow(p.Mul(p, g.Rat()))
}

// Over returns f / g; g must not be 0.
func (f Fraction) Over(g Fraction) Fraction {
	if g.rat == nil && g.num > 0 {
		return f.Times(fraction(g.below(), g.num))
	}
	return f.Times(narrow(new(big.Rat).Inv(g.Rat())))
}

// least returns the smaller one.
func least(a, b Fraction) Fraction {
	if a.Cmp(b) <= 0 {
		return a
	}
	return b
}

// add is a + b over the least common multiple of the denominators, if that fits. Most numbers are
// parts of few totals, so that the multiple is often one of the two.
func add(a, b *Fraction) (Fraction, bool) {
	x, y := a.below(), b.below()
	d := divisor(x, y)
	below, ok1 := product(x, y/d)
	m, ok2 := product(a.num, y/d)
	n, ok3 := product(b.num, x/d)
	return fraction(m+n, below), ok1 && ok2 && ok3
}

// multiply is a * b if that fits as it is.
func multiply(a, b *Fraction) (Fraction, bool) {
	n, ok1 := product(a.num, b.num)
	d, ok2 := product(a.below(), b.below())
	return fraction(n, d), ok1 && ok2
}

// reduced returns the same number in lowest terms.
func (f Fraction) reduced() Fraction {
	if f.rat != nil {
		return f
	}
	d := divisor(f.below(), f.num)
	return fraction(f.num/d, f.below()/d)
}

// narrow returns a number of math/big, in the short form if it fits.
func narrow(r *big.Rat) Fraction {
	if r.Num().IsInt64() && r.Denom().IsInt64() {
		return fraction(r.Num().Int64(), r.Denom().Int64())
	}
	return Fraction{rat: r}
}

// product returns a * b, and false if it does not fit 63 bits, so that the sum of two fits 64.
func product(a, b int64) (int64, bool) {
	hi, lo := wideProduct(a, b)
	p := int64(lo)
	return p, hi == p>>63 && hi == p>>62
}

// wideProduct returns a * b as the upper and the lower half of 128 bits.
func wideProduct(a, b int64) (hi int64, lo uint64) {
	h, lo := bits.Mul64(uint64(a), uint64(b))
	return int64(h) - a>>63&b - b>>63&a, lo
}

// divisor returns the greatest common divisor of a positive number and another one.
func divisor(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return max(a, -a)
}
