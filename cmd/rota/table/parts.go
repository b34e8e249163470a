package table

import "slices"

// part is columns of a table that are printed beside each other, with their widths.
type part struct{ columns, widths []int }

// parts divides a table so that no line is wider than most, 0 for no limit. It shortens cells first. Then it
// leaves columns out that have a rank. A table that is still too wide is printed in parts, one below the
// other.
func (t *Table) parts(natural []int, most int) []part {
	shown := make([]int, len(t.Columns))
	for i := range shown {
		shown[i] = i
	}
	if most <= 0 {
		return []part{t.shorten(shown, natural, most)}
	}
	for t.least(shown, natural) > most {
		last := -1
		for n, i := range shown {
			if rank := t.Columns[i].Rank; rank > 0 && (last < 0 || rank >= t.Columns[shown[last]].Rank) {
				last = n
			}
		}
		if last < 0 {
			return t.fold(shown, natural, most)
		}
		shown = slices.Delete(shown, last, last+1)
	}
	return []part{t.shorten(shown, natural, most)}
}

// fold distributes columns over parts. Each begins with the keys if they leave room for another column.
func (t *Table) fold(shown, natural []int, most int) []part {
	keys := shown[:min(max(1, t.Keys), len(shown))]
	var all []part
	next := slices.Clone(keys)
	for _, i := range shown[len(keys):] {
		if t.least(append(slices.Clone(next), i), natural) > most && len(next) > 0 {
			all = append(all, t.shorten(next, natural, most))
			if next = slices.Clone(keys); t.least(append(slices.Clone(keys), i), natural) > most {
				next = nil
			}
		}
		next = append(next, i)
	}
	return append(all, t.shorten(next, natural, most))
}

// narrowest returns the least width of a column.
func (t *Table) narrowest(i int, natural []int) int {
	if t.Columns[i].Least == 0 {
		return natural[i]
	}
	return min(natural[i], max(t.Columns[i].Least, len(t.Columns[i].Title)))
}

// least returns the width of columns beside each other, each as narrow as it may be.
func (t *Table) least(columns, natural []int) int {
	total := max(0, len(columns)-1)
	for _, i := range columns {
		total += t.narrowest(i, natural)
	}
	return total
}

// shorten narrows the widest column that may be shortened, until the columns fit beside each other. A
// column that alone is wider than the line is cut in any case.
func (t *Table) shorten(columns, natural []int, most int) part {
	p := part{columns, make([]int, len(columns))}
	total := max(0, len(columns)-1)
	for n, i := range columns {
		p.widths[n] = natural[i]
		total += natural[i]
	}
	for force := false; most > 0 && total > most; total-- {
		widest := -1
		for n, i := range columns {
			may := force && p.widths[n] > 1 || p.widths[n] > t.narrowest(i, natural)
			if may && (widest < 0 || p.widths[n] > p.widths[widest]) {
				widest = n
			}
		}
		switch {
		case widest >= 0:
			p.widths[widest]--
		case force:
			return p // more columns than characters
		default:
			force = true
			total++
		}
	}
	return p
}
