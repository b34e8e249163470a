package share

import (
	"cmp"
	"math"
	"math/big"
	"math/bits"
)

// Fraction is an exact rational number. It never changes. The zero value is 0.
//
// A tree is settled anew in every cycle, and nearly all of its numbers are parts of the live
// cluster or sums of such: their numerators and denominators fit 128 bits, mostly even 64. So they
// are kept like that, unreduced as long as there is room, and only what does not fit even in lowest
// terms is left to math/big. Which form a number has says nothing about it: operations are exact in
// both.
type Fraction struct {
	neg      bool
	num, den wide     // den 0 stands for 1
	rat      *big.Rat // if it does not fit; the rest is unused then
}

// wide is an integer from 0 to 2^128-1.
type wide struct{ hi, lo uint64 }

// zero and one are the ends of all parts.
var (
	zero = Fraction{den: wide{0, 1}}
	one  = Fraction{num: wide{0, 1}, den: wide{0, 1}}
)

// fraction returns n/d; d must be positive.
func fraction(n, d int64) Fraction {
	if n < 0 {
		return Fraction{neg: true, num: wide{0, -uint64(n)}, den: wide{0, uint64(d)}}
	}
	return Fraction{num: wide{0, uint64(n)}, den: wide{0, uint64(d)}}
}

// Rat returns the same number in lowest terms; the caller may change it.
func (f Fraction) Rat() *big.Rat {
	if f.rat != nil {
		return new(big.Rat).Set(f.rat)
	}
	n := f.num.big()
	if f.neg {
		n.Neg(n)
	}
	return new(big.Rat).SetFrac(n, f.below().big())
}

// Float64 returns the nearest float64, and whether it is the same number.
func (f Fraction) Float64() (float64, bool) { return f.Rat().Float64() }

// String writes it in lowest terms, as a/b.
func (f Fraction) String() string { return f.Rat().String() }

// below is the denominator.
func (f *Fraction) below() wide {
	if f.den == (wide{}) {
		return wide{0, 1}
	}
	return f.den
}

// Sign returns -1, 0 or 1.
func (f Fraction) Sign() int {
	switch {
	case f.rat != nil:
		return f.rat.Sign()
	case f.num == wide{}:
		return 0
	case f.neg:
		return -1
	}
	return 1
}

// Cmp returns -1, 0 or 1 as f is below, equal to or above g.
func (f Fraction) Cmp(g Fraction) int { return f.cmp(&g) }

func (f *Fraction) cmp(g *Fraction) int {
	if a, b := f.Sign(), g.Sign(); a != b || a == 0 {
		return cmp.Compare(a, b)
	}
	if f.rat != nil || g.rat != nil {
		return f.Rat().Cmp(g.Rat())
	}
	by := compareProducts(f.num, g.below(), g.num, f.below())
	if f.neg {
		return -by
	}
	return by
}

// Of returns the most whole things that are within a part of so many; neither is negative.
func (f Fraction) Of(n int64) int64 {
	if f.rat == nil {
		below := f.below()
		if p, ok := times(f.num, wide{0, uint64(n)}); ok && below.hi == 0 && p.hi < below.lo {
			q, _ := bits.Div64(p.hi, p.lo, below.lo)
			return int64(min(q, math.MaxInt64))
		}
	}
	r := f.Rat()
	q := new(big.Int).Mul(r.Num(), big.NewInt(n))
	if q.Quo(q, r.Denom()); !q.IsInt64() {
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
		f.reduce()
		g.reduce()
		if sum, ok := addOver(&f, &g, f.den, g.den, divisor(f.den, g.den)); ok {
			return sum
		}
	}
	sum := f.Rat()
	return narrow(sum.Add(sum, g.Rat()))
}

// Minus returns f - g.
func (f Fraction) Minus(g Fraction) Fraction { return f.Plus(g.negative()) }

func (f Fraction) negative() Fraction {
	if f.rat != nil {
		return narrow(new(big.Rat).Neg(f.rat))
	}
	f.neg = !f.neg
	return f
}

// Times returns f * g.
func (f Fraction) Times(g Fraction) Fraction {
	if f.Sign() == 0 || g.Sign() == 0 {
		return zero
	}
	if f.rat == nil && g.rat == nil {
		if p, ok := multiply(&f, &g); ok {
			return p
		}
		f.reduce()
		g.reduce()
		cancel(&f.num, &g.den)
		cancel(&g.num, &f.den)
		if p, ok := multiply(&f, &g); ok {
			return p
		}
	}
	p := f.Rat()
	return narrow(p.Mul(p, g.Rat()))
}

// Over returns f / g; g must not be 0.
func (f Fraction) Over(g Fraction) Fraction {
	if g.rat != nil {
		return f.Times(narrow(new(big.Rat).Inv(g.rat)))
	}
	return f.Times(Fraction{neg: g.neg, num: g.below(), den: g.num})
}

// least returns the smaller one.
func least(a, b Fraction) Fraction {
	if a.Cmp(b) <= 0 {
		return a
	}
	return b
}

// add is a + b if that fits without bringing them to lowest terms. Most are parts of few totals, so
// that one denominator is often a multiple of the other, and the least common one is soon reached.
func add(a, b *Fraction) (Fraction, bool) {
	x, y := a.below(), b.below()
	switch {
	case x == y:
		return signed(a.neg, a.num, b.neg, b.num, x)
	case y.hi == 0 && x.rest(y.lo) == 0:
		n, ok := times(b.num, quotient(x, y))
		return signedIf(ok, a.neg, a.num, b.neg, n, x)
	case x.hi == 0 && y.rest(x.lo) == 0:
		m, ok := times(a.num, quotient(y, x))
		return signedIf(ok, a.neg, m, b.neg, b.num, y)
	case x.hi|y.hi == 0:
		return addOver(a, b, x, y, wide{0, divisor64(x.lo, y.lo)})
	}
	return addOver(a, b, x, y, wide{0, 1})
}

// addOver is a + b where g divides both denominators, x and y.
func addOver(a, b *Fraction, x, y, g wide) (Fraction, bool) {
	p, q := quotient(x, g), quotient(y, g)
	below, ok1 := times(x, q)
	m, ok2 := times(a.num, q)
	n, ok3 := times(b.num, p)
	return signedIf(ok1 && ok2 && ok3, a.neg, m, b.neg, n, below)
}

func signedIf(ok bool, mNeg bool, m wide, nNeg bool, n wide, below wide) (Fraction, bool) {
	if !ok {
		return Fraction{}, false
	}
	return signed(mNeg, m, nNeg, n, below)
}

// signed returns (±m ± n) / below, and false if the sum does not fit.
func signed(mNeg bool, m wide, nNeg bool, n wide, below wide) (Fraction, bool) {
	if mNeg == nNeg {
		sum, ok := plus(m, n)
		return Fraction{neg: mNeg, num: sum, den: below}, ok
	}
	if m.less(n) {
		m, n, mNeg = n, m, nNeg
	}
	return Fraction{neg: mNeg, num: minus(m, n), den: below}, true
}

// multiply is a * b if that fits as it is.
func multiply(a, b *Fraction) (Fraction, bool) {
	n, ok := times(a.num, b.num)
	if !ok {
		return Fraction{}, false
	}
	d, ok := times(a.below(), b.below())
	return Fraction{neg: a.neg != b.neg, num: n, den: d}, ok
}

// reduce brings a number to lowest terms.
func (f *Fraction) reduce() {
	if f.rat == nil && f.num != (wide{}) {
		f.den = f.below()
		cancel(&f.num, &f.den)
	}
}

// near returns the number up to an error of a few units in the last place.
func (f *Fraction) near() float64 {
	if f.rat != nil {
		x, _ := f.rat.Float64()
		return x
	}
	below := f.below()
	x := f.num.near() / below.near()
	if f.neg {
		return -x
	}
	return x
}

func (w wide) near() float64 { return float64(w.hi)*(1<<64) + float64(w.lo) }

// cancel divides two numbers by what both can be divided by.
func cancel(a, b *wide) {
	g := divisor(*a, *b)
	*a, *b = quotient(*a, g), quotient(*b, g)
}

// narrow returns a number of math/big, in the short form if it fits.
func narrow(r *big.Rat) Fraction {
	n, okN := narrowInt(r.Num())
	d, okD := narrowInt(r.Denom())
	if !okN || !okD {
		return Fraction{rat: r}
	}
	return Fraction{neg: r.Sign() < 0, num: n, den: d}
}

// narrowInt returns the magnitude of an integer.
func narrowInt(x *big.Int) (wide, bool) {
	if x.BitLen() > 128 {
		return wide{}, false
	}
	lo := new(big.Int).And(new(big.Int).Abs(x), new(big.Int).SetUint64(1<<64-1))
	hi := new(big.Int).Rsh(new(big.Int).Abs(x), 64)
	return wide{hi.Uint64(), lo.Uint64()}, true
}

func (w wide) big() *big.Int {
	n := new(big.Int).SetUint64(w.hi)
	return n.Or(n.Lsh(n, 64), new(big.Int).SetUint64(w.lo))
}

// rest is w % d.
func (w wide) rest(d uint64) uint64 { return bits.Rem64(w.hi, w.lo, d) }

func (w wide) less(x wide) bool { return w.hi < x.hi || w.hi == x.hi && w.lo < x.lo }

func plus(a, b wide) (wide, bool) {
	lo, carry := bits.Add64(a.lo, b.lo, 0)
	hi, carry := bits.Add64(a.hi, b.hi, carry)
	return wide{hi, lo}, carry == 0
}

// minus returns a - b, which must not be negative.
func minus(a, b wide) wide {
	lo, borrow := bits.Sub64(a.lo, b.lo, 0)
	hi, _ := bits.Sub64(a.hi, b.hi, borrow)
	return wide{hi, lo}
}

// times returns a * b, and false if it does not fit.
func times(a, b wide) (wide, bool) {
	hi, lo := bits.Mul64(a.lo, b.lo)
	if a.hi|b.hi == 0 {
		return wide{hi, lo}, true
	}
	if a.hi != 0 && b.hi != 0 {
		return wide{}, false
	}
	over, cross := bits.Mul64(a.hi, b.lo)
	if a.hi == 0 {
		over, cross = bits.Mul64(a.lo, b.hi)
	}
	hi, carry := bits.Add64(hi, cross, 0)
	return wide{hi, lo}, over|carry == 0
}

// compareProducts orders a*b and c*d, which always fit 256 bits.
func compareProducts(a, b, c, d wide) int {
	if a.hi|b.hi|c.hi|d.hi == 0 {
		hi1, lo1 := bits.Mul64(a.lo, b.lo)
		hi2, lo2 := bits.Mul64(c.lo, d.lo)
		return cmp.Or(cmp.Compare(hi1, hi2), cmp.Compare(lo1, lo2))
	}
	x, y := product(a, b), product(c, d)
	for i := len(x) - 1; i >= 0; i-- {
		if by := cmp.Compare(x[i], y[i]); by != 0 {
			return by
		}
	}
	return 0
}

// product is a * b as four words, the lowest first.
func product(a, b wide) [4]uint64 {
	var p [4]uint64
	hi, lo := bits.Mul64(a.lo, b.lo)
	p[0], p[1] = lo, hi
	p[3], p[2] = bits.Mul64(a.hi, b.hi)
	for _, m := range [2][2]uint64{{a.lo, b.hi}, {a.hi, b.lo}} {
		hi, lo := bits.Mul64(m[0], m[1])
		var carry uint64
		p[1], carry = bits.Add64(p[1], lo, 0)
		p[2], carry = bits.Add64(p[2], hi, carry)
		p[3] += carry
	}
	return p
}

// divisor returns the greatest common divisor of two numbers that are not 0.
func divisor(a, b wide) wide {
	if a.hi|b.hi == 0 {
		return wide{0, divisor64(a.lo, b.lo)}
	}
	twos := min(a.zeros(), b.zeros())
	a, b = a.down(a.zeros()), b.down(b.zeros())
	for a != b {
		if a.hi|b.hi == 0 {
			a = wide{0, divisor64(a.lo, b.lo)}
			break
		}
		if a.less(b) {
			a, b = b, a
		}
		a = minus(a, b)
		a = a.down(a.zeros())
	}
	return a.up(twos)
}

func divisor64(a, b uint64) uint64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// zeros is how often a number that is not 0 can be halved.
func (w wide) zeros() uint {
	if w.lo != 0 {
		return uint(bits.TrailingZeros64(w.lo))
	}
	return 64 + uint(bits.TrailingZeros64(w.hi))
}

// down returns w / 2^n for n below 128.
func (w wide) down(n uint) wide {
	if n >= 64 {
		return wide{0, w.hi >> (n - 64)}
	}
	return wide{w.hi >> n, w.lo>>n | w.hi<<(64-n)}
}

// up returns w * 2^n, which must fit.
func (w wide) up(n uint) wide {
	if n >= 64 {
		return wide{w.lo << (n - 64), 0}
	}
	return wide{w.hi<<n | w.lo>>(64-n), w.lo << n}
}

// quotient returns a / d where d divides a.
func quotient(a, d wide) wide {
	if d == (wide{0, 1}) {
		return a
	}
	if d.hi == 0 {
		hi, rest := a.hi/d.lo, a.hi%d.lo
		lo, _ := bits.Div64(rest, a.lo, d.lo)
		return wide{hi, lo}
	}
	// The divisor has more than 64 bits, so the quotient has less: long division, bit by bit.
	var q uint64
	for shift := 63; shift >= 0; shift-- {
		if part := d.up(uint(shift)); part.down(uint(shift)) == d && !a.less(part) {
			a = minus(a, part)
			q |= 1 << shift
		}
	}
	return wide{0, q}
}
