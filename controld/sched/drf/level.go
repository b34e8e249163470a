package drf

import (
	"cmp"
	"slices"
)

// tally adds up fractions. Most have one of few denominators, for each of which the sum is kept
// apart.
type tally []Fraction

func (t *tally) add(f Fraction) {
	if f.Sign() == 0 {
		return
	}
	for i := range *t {
		if own := &(*t)[i]; own.rat == nil && f.rat == nil && own.below() == f.below() {
			*own = own.Plus(f)
			return
		}
	}
	*t = append(*t, f)
}

func (t *tally) sum() Fraction {
	sum := zero
	for _, f := range *t {
		sum = sum.Plus(f)
	}
	return sum
}

// filling is one child while its parent's share is divided.
type filling struct {
	node *Node
	rate Fraction // in what proportion it gets what is over
	full Fraction // level at which it has all that it could make use of
	near float64  // full, nearly
}

// fill raises the level for all children with a rate until each has what it could make use of or
// left is used up, and returns what is left.
func (n *Node) fill(left Fraction, rates []Fraction) Fraction {
	line := make([]filling, 0, len(n.children))
	var all tally
	for i, c := range n.children {
		if rates[i].Sign() > 0 {
			all.add(rates[i])
			full := c.demand.Minus(c.share).Over(rates[i])
			line = append(line, filling{c, rates[i], full, full.near()})
		}
	}
	if len(line) == 0 {
		return left
	}
	slices.SortFunc(line, func(a, b filling) int { return cmp.Compare(a.near, b.near) })
	top, rest := level(line, left, all.sum())
	top = top.reduced()
	var last *filling
	for i := range line {
		line[i].settle(&top, last)
		last = &line[i]
	}
	return rest
}

// level returns how high the level rises over a line that wants it to rise by different amounts, at
// rates whose sum is total, and what is left then. When all have enough it goes on rising for all,
// but nothing is given away.
//
// Which of them are sated at the level is guessed by numbers that are nearly right. The level
// follows from that exactly, and whether the guess was right is seen exactly: those said to be
// sated are, and the others are not. There is only one such level, since what is given grows with
// it.
func level(line []filling, left, total Fraction) (top, rest Fraction) {
	const tries = 4
	sated := guess(line, left.near(), total.near())
	for range tries {
		var given, rates tally
		for i := range line[:sated] {
			f := &line[i]
			given.add(f.node.demand.Minus(f.node.share))
			rates.add(f.rate)
		}
		rest, over := left.Minus(given.sum()), total.Minus(rates.sum())
		if over.Sign() == 0 && rest.Sign() >= 0 {
			return highest(line).Plus(rest.Over(total)), rest
		}
		if over.Sign() == 0 || rest.Sign() < 0 {
			sated--
			continue
		}
		switch top := rest.Over(over); check(line, sated, &top) {
		case 0:
			return top, zero
		case 1:
			sated++
		default:
			sated--
		}
	}
	return levelByOrder(line, left, total)
}

// guess returns how many of a line, which is sorted by near, are sated at the level.
func guess(line []filling, left, total float64) int {
	at := 0.0
	for i := range line {
		f := &line[i]
		cost := float64((f.near - at) * total)
		if cost > left {
			return i
		}
		left -= cost
		at = f.near
		total -= f.rate.near()
	}
	return len(line)
}

// check compares a guess with the level that follows from it: 0 if it was right, -1 if one that is
// said to be sated is not, 1 if one is that is said not to be.
func check(line []filling, sated int, top *Fraction) int {
	for i := range line[:sated] {
		if line[i].full.cmp(top) > 0 {
			return -1
		}
	}
	for i := range line[sated:] {
		if line[sated+i].full.cmp(top) < 0 {
			return 1
		}
	}
	return 0
}

// highest is the level at which the last of a line has enough.
func highest(line []filling) Fraction {
	top := line[0].full
	for i := range line {
		if line[i].full.cmp(&top) > 0 {
			top = line[i].full
		}
	}
	return top
}

// levelByOrder is level without a guess: one is sated after the other.
func levelByOrder(line []filling, left, total Fraction) (top, rest Fraction) {
	slices.SortFunc(line, func(a, b filling) int { return a.full.cmp(&b.full) })
	at, over := zero, total
	for i := range line {
		f := &line[i]
		cost := f.full.Minus(at).Times(over)
		if cost.cmp(&left) > 0 {
			break
		}
		left, at, over = left.Minus(cost), f.full, over.Minus(f.rate)
	}
	if over.Sign() > 0 {
		return at.Plus(left.Over(over)), zero
	}
	return at.Plus(left.Over(total)), left
}

// settle gives one child what it gets at a level. Its line is that of another child with the same
// title and rate, if that is known.
func (f *filling) settle(top *Fraction, like *filling) {
	n := f.node
	if like != nil && like.rate == f.rate && like.node.due == n.due {
		n.line = like.node.line
	} else {
		n.line = n.due.Plus(f.rate.Times(*top))
	}
	n.share = n.line // a node that wants more has what it is due, and then as much as all
	if f.full.cmp(top) <= 0 {
		n.share = n.demand
	}
}
