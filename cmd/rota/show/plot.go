package show

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/rota-hpc/rota/controld/api"
)

// Plot draws a series in a terminal: the value upwards, the step to the right.
type Plot struct {
	Width int // of a line, axis included, in characters
	ASCII bool
}

// Tunables of plots, in characters.
const (
	plotRows  = 12 // high: half of a small terminal, so that the command above it stays in sight
	leastPlot = 16 // wide, however narrow the terminal is
)

// Draw writes the series of a metric. Values that are no numbers are left out, and leave a gap.
func (p Plot) Draw(out io.Writer, metric string, points []api.Point) error {
	r, ok := rangeOf(points)
	if !ok {
		return nil
	}
	ticks := r.ticks()
	margin := 0
	for _, t := range ticks {
		margin = max(margin, utf8.RuneCountInString(t))
	}
	c := newCanvas(max(leastPlot, p.Width-margin-2), plotRows, p.ASCII)
	c.curve(&r, points)
	bars := [3]string{" ┤", " │", " └"}
	line := "─"
	if p.ASCII {
		bars, line = [3]string{" +", " |", " +"}, "-"
	}
	b := bufio.NewWriter(out)
	write := func(parts ...string) {
		fmt.Fprintln(b, strings.TrimRight(strings.Join(parts, ""), " "))
	}
	pad := strings.Repeat(" ", margin)
	write(pad, " ", Clean(metric))
	for row := range plotRows {
		if t := ticks[row]; t != "" {
			write(pad[len(t):], t, bars[0], c.row(row))
		} else {
			write(pad, bars[1], c.row(row))
		}
	}
	write(pad, bars[2], strings.Repeat(line, c.columns))
	write(pad, "  ", r.steps(c.columns))
	return b.Flush()
}

// plotRange is what a plot reaches over.
type plotRange struct {
	low, high   float64
	first, last int64
}

// rangeOf returns what points reach over, false if none has a number.
func rangeOf(points []api.Point) (r plotRange, ok bool) {
	for _, p := range points {
		if !isNumber(p.Value) {
			continue
		}
		if !ok {
			r = plotRange{p.Value, p.Value, p.Step, p.Step}
		}
		r.low, r.high = min(r.low, p.Value), max(r.high, p.Value)
		r.first, r.last = min(r.first, p.Step), max(r.last, p.Step)
		ok = true
	}
	return r, ok
}

func isNumber(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// ticks returns the values to write beside rows: with as few digits as tell them apart.
func (r *plotRange) ticks() map[int]string {
	if r.isFlat() {
		return map[int]string{plotRows / 2: strconv.FormatFloat(r.low, 'g', 6, 64)}
	}
	for digits := 3; ; digits++ {
		of := func(v float64) string { return strconv.FormatFloat(v, 'g', digits, 64) }
		top, middle, bottom := of(r.high), of(r.low/2+r.high/2), of(r.low)
		if digits >= 17 || top != middle && middle != bottom {
			return map[int]string{0: top, plotRows / 2: middle, plotRows - 1: bottom}
		}
	}
}

// isFlat reports whether all values are the same, or too near to each other to be told apart.
func (r *plotRange) isFlat() bool { return r.high/2-r.low/2 == 0 }

// height returns how far up a value lies, from 0 to 1. Halves are subtracted, since the difference
// of two large numbers may be none.
func (r *plotRange) height(v float64) float64 {
	if r.isFlat() {
		return 0.5
	}
	return (v/2 - r.low/2) / (r.high/2 - r.low/2)
}

// across returns how far to the right a step lies, from 0 to 1.
func (r *plotRange) across(step int64) float64 {
	if r.first == r.last {
		return 0
	}
	return (float64(step) - float64(r.first)) / (float64(r.last) - float64(r.first))
}

// steps writes the first and the last step below the ends of the axis, with its unit between them.
func (r *plotRange) steps(width int) string {
	first, last := strconv.FormatInt(r.first, 10), strconv.FormatInt(r.last, 10)
	if r.first == r.last {
		return first + " step"
	}
	gap := width - len(first) - len(last)
	if gap < len(" step ") {
		return first + "-" + last + " step"
	}
	left := (gap - len("step")) / 2
	return first + strings.Repeat(" ", left) + "step" + strings.Repeat(" ", gap-len("step")-left) + last
}

// canvas is dots. A character is 2 dots wide and 4 high in braille, and one dot in ASCII.
type canvas struct {
	columns, perColumn, perRow int
	dots                       [][]bool // by row of dots from the top
}

func newCanvas(columns, rows int, ascii bool) *canvas {
	c := &canvas{columns: columns, perColumn: 2, perRow: 4}
	if ascii {
		c.perColumn, c.perRow = 1, 1
	}
	c.dots = make([][]bool, rows*c.perRow)
	for i := range c.dots {
		c.dots[i] = make([]bool, columns*c.perColumn)
	}
	return c
}

// curve joins the points by lines.
func (c *canvas) curve(r *plotRange, points []api.Point) {
	joined := false
	var fromX, fromY int
	for _, p := range points {
		if !isNumber(p.Value) {
			joined = false
			continue
		}
		x := int(math.Round(r.across(p.Step) * float64(len(c.dots[0])-1)))
		y := int(math.Round((1 - r.height(p.Value)) * float64(len(c.dots)-1)))
		if !joined {
			fromX, fromY = x, y
		}
		c.line(fromX, fromY, x, y)
		joined, fromX, fromY = true, x, y
	}
}

// line sets the dots from one to another.
func (c *canvas) line(x, y, toX, toY int) {
	n := max(toX-x, x-toX, toY-y, y-toY)
	c.dots[y][x] = true
	for i := 1; i <= n; i++ {
		part := float64(i) / float64(n)
		c.dots[y+int(math.Round(part*float64(toY-y)))][x+int(math.Round(part*float64(toX-x)))] = true
	}
}

// braille has the bits of the dots of a character, by row and column.
var braille = [4][2]rune{{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}}

// row returns a row of characters.
func (c *canvas) row(row int) string {
	var b strings.Builder
	for column := range c.columns {
		mask := rune(0)
		for i := range c.perRow {
			for k := range c.perColumn {
				if c.dots[row*c.perRow+i][column*c.perColumn+k] {
					mask |= braille[i][k]
				}
			}
		}
		switch {
		case mask == 0:
			b.WriteByte(' ')
		case c.perRow == 1:
			b.WriteByte('*')
		default:
			b.WriteRune(0x2800 + mask)
		}
	}
	return b.String()
}
