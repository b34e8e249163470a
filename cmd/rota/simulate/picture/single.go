package picture

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/rota-hpc/rota/controld/sim"
	"github.com/rota-hpc/rota/jobspec"
)

// Bounds of what the picture of one run shows.
const (
	maxShares = 8    // accounts with a curve of their own
	maxSpans  = 2000 // attempts; of a longer run only the beginning is shown
)

// accounts draws the share over time of the accounts that held most GPUs, or cores if there are no GPUs.
func (d *drawing) accounts(s *sim.Story) {
	what, all, of := "GPUs", s.Capacity.GPUs, func(x *sim.Sample) []int64 { return x.GPUs }
	if all == 0 {
		what, all, of = "cores", s.Capacity.Cores, func(x *sim.Sample) []int64 { return x.Cores }
	}
	lines := make([]series, len(s.Accounts))
	sums := make([]float64, len(s.Accounts))
	order := make([]int, len(s.Accounts))
	for a, name := range s.Accounts {
		order[a] = a
		lines[a] = d.sampled(name, s, func(x *sim.Sample) float64 {
			if held := of(x); a < len(held) {
				return 100 * float64(held[a]) / float64(max(1, all))
			}
			return 0
		})
		for _, y := range lines[a].y {
			sums[a] += y
		}
	}
	if len(order) == 0 {
		return
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(sums[b], sums[a]) })
	title := "Held by accounts"
	if n := len(order); n > maxShares {
		title += fmt.Sprintf("; only the %d of %d that held most", maxShares, n)
	}
	order = order[:min(maxShares, len(order))]
	var shown []series
	var names []string
	top := 0.0
	for _, a := range order {
		shown, names = append(shown, lines[a]), append(names, lines[a].name)
		top = math.Max(top, slices.Max(lines[a].y))
	}
	d.top += d.legend("account", margin+roomLeft, d.top+lineStep/2, width-2*margin-roomLeft, names, d.curveMark)
	p := newPanel(title, d.timeAxis(), linear("% of the "+what, math.Max(top, 1), false), margin, d.top, width-2*margin,
		panelHeight)
	d.top += panelHeight
	p.frame(&d.canvas)
	p.curves(&d.canvas, shown)
}

// beginning returns the attempts by their starts. If there are more than about most, it returns
// those that start before some instant, cut off there.
func beginning(spans []sim.Span, most int) []sim.Span {
	first := slices.SortedStableFunc(slices.Values(spans),
		func(a, b sim.Span) int { return cmp.Compare(a.Start, b.Start) })
	n := most
	for n < len(first) && first[n].Start == first[0].Start { // all attempts that start at once are shown
		n++
	}
	if n >= len(first) {
		return first
	}
	until := first[n].Start
	for first[n-1].Start == until {
		n--
	}
	first = first[:n]
	for i := range first {
		if s := &first[i]; s.End > until {
			s.End, s.Stopped = until, false
		}
	}
	return first
}

// attempts draws every attempt as bars over time: one bar for the GPUs that it held side by side on a node.
func (d *drawing) attempts(s *sim.Story) {
	title := "Attempts on the GPUs of the nodes; attempts that were stopped end in black"
	if s.NodeGPUs == 0 {
		title = "Attempts on the nodes; attempts that were stopped end in black"
	}
	spans := beginning(s.Spans, maxSpans)
	if len(spans) < len(s.Spans) {
		title += fmt.Sprintf("; the first %d of %d", len(spans), len(s.Spans))
	}
	var end int64
	for i := range spans {
		end = max(end, spans[i].End)
	}
	d.top += d.legend("class", margin+roomLeft, d.top+lineStep/2, width-2*margin-roomLeft, []string{"BE", "TE"}, d.boxMark)
	unit := unitFor(end)
	p := newPanel(title, linear(unit.name, float64(max(1, end))/unit.ms, false), linear("node", float64(max(1, s.Nodes)),
		true), margin, d.top, width-2*margin, panelHeight+min(500, 4*float64(s.Nodes)))
	d.top = p.top + p.height + roomBottom
	p.frame(&d.canvas)
	for i := range spans {
		span := &spans[i]
		k := 0
		if span.Class == jobspec.TE {
			k = 1
		}
		left, right := p.px(float64(span.Start)/unit.ms), p.px(float64(span.End)/unit.ms)
		for _, row := range span.Rows {
			from, to := lane(&row, i, max(1, s.NodeGPUs))
			d.bar(p, left, right, from, to, palette[k])
			if span.Stopped {
				d.bar(p, math.Max(left, right-0.7), right, from, to, "#000000")
			}
		}
	}
}

// bar draws a bar that reaches over a part of the nodes.
func (d *drawing) bar(p *panel, left, right, from, to float64, colour string) {
	d.printf("<rect class=\"attempt\" x=\"%.1f\" y=\"%.1f\" width=\"%.2f\" height=\"%.2f\" fill=\"%s\"/>\n", left,
		p.py(to), math.Max(0.2, right-left), math.Max(0.2, p.py(from)-p.py(to)), colour)
}

// lane returns the position of a bar: each GPU has a part of its node's height. Workers without a
// GPU lie beside each other, as far as possible.
func lane(row *sim.Row, i, gpus int) (from, to float64) {
	const gap = 0.06
	if row.GPUs == 0 {
		from = float64(row.Node) + float64(i%8)/10
		return from, from + 0.1
	}
	height := (1 - gap) / float64(gpus)
	from = float64(row.Node) + float64(row.GPU)*height
	return from, from + float64(row.GPUs)*height - gap/4
}
