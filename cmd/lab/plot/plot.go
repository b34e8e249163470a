package main

import (
	"cmp"
	"fmt"
	"image/color"
	"io"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/rota-hpc/rota/controld/sim"
	"github.com/rota-hpc/rota/jobspec"
)

// Sizes of the drawing, and bounds of what it shows.
const (
	width      = 11 * vg.Inch
	height     = 3.2 * vg.Inch // of a panel
	margin     = 0.12 * vg.Inch
	beside     = 1.3 * vg.Inch // for a legend, to the right of its panel
	maxSpans   = 2000          // spans of attempts in the last panel; of a longer run only the beginning is shown
	maxCurve   = 2000          // points of a distribution
	maxShares  = 8             // accounts with a curve of their own
	hourMS     = 3_600_000.0
	percentage = 100.0
)

// palette are colours that people with impaired colour vision can tell apart.
var palette = []color.Color{
	color.RGBA{0x00, 0x72, 0xb2, 0xff}, color.RGBA{0xd5, 0x5e, 0x00, 0xff}, color.RGBA{0x00, 0x9e, 0x73,
		0xff}, color.RGBA{0xcc, 0x79, 0xa7, 0xff},
	color.RGBA{0xe6, 0x9f, 0x00, 0xff}, color.RGBA{0x56, 0xb4, 0xe9, 0xff}, color.RGBA{0x99, 0x99, 0x99,
		0xff}, color.RGBA{0x33, 0x33, 0x33, 0xff},
}

func colour(i int) color.Color { return palette[i%len(palette)] }

// writePlot draws a result that has a story: one SVG with a panel under the other. They show the
// resources held, the jobs pending and running, the slowdowns, the accounts' shares, and each
// attempt on its nodes.
func writePlot(w io.Writer, r *sim.Result) error {
	s := r.Story
	if s == nil {
		return fmt.Errorf("the result of %s has no story to draw", r.Trace)
	}
	var panels []*plot.Plot
	for _, panel := range []func(*sim.Result) (*plot.Plot, error){held, queue, slowdowns, shares, jobs} {
		p, err := panel(r)
		if err != nil {
			return fmt.Errorf("draw %s: %w", r.Trace, err)
		}
		panels = append(panels, p)
	}
	c := vgsvg.New(width, height*vg.Length(len(panels)))
	whole := draw.New(c)
	for i, p := range panels {
		top := vg.Length(len(panels)-i) * height
		part := draw.Crop(whole, margin, -margin, top-height+margin, top-height*vg.Length(len(panels))-margin)
		names := p.Legend
		p.Legend = plot.NewLegend()
		p.Draw(draw.Crop(part, 0, -beside, 0, 0))
		names.Draw(draw.Crop(part, part.Size().X-beside+margin, 0, 0, -margin))
	}
	_, err := c.WriteTo(w)
	return err
}

func panel(title, x, y string) *plot.Plot {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, x, y
	p.Legend.Top, p.Legend.Left = true, true
	p.Add(plotter.NewGrid())
	return p
}

// line adds a curve to a panel. A value holds from its point to the next.
func line(p *plot.Plot, name string, i int, points plotter.XYs) error {
	if len(points) == 0 {
		return nil
	}
	l, err := plotter.NewLine(points)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	l.Color, l.StepStyle = colour(i), plotter.PostStep
	p.Add(l)
	p.Legend.Add(name, l)
	return nil
}

func curve(s *sim.Story, of func(*sim.Sample) float64) plotter.XYs {
	points := make(plotter.XYs, len(s.Samples))
	for i := range s.Samples {
		points[i].X, points[i].Y = float64(s.Samples[i].At)/hourMS, of(&s.Samples[i])
	}
	return points
}

func held(r *sim.Result) (*plot.Plot, error) {
	s := r.Story
	p := panel(fmt.Sprintf("%s under %s: held", r.Trace, r.Policy), "hours", "% of the cluster")
	p.Y.Min, p.Y.Max = 0, percentage
	for i, c := range []struct {
		name string
		have int64 // a cluster without the resource has no line for it
		of   func(*sim.Sample) int64
	}{
		{"GPUs", s.Capacity.GPUs, func(x *sim.Sample) int64 { return x.Held.GPUs }},
		{"cores", s.Capacity.Cores, func(x *sim.Sample) int64 { return x.Held.Cores }},
		{"memory", int64(s.Capacity.Memory), func(x *sim.Sample) int64 { return int64(x.Held.Memory) }},
	} {
		if c.have == 0 {
			continue
		}
		part := func(x *sim.Sample) float64 { return percentage * float64(c.of(x)) / float64(c.have) }
		if err := line(p, c.name, i, curve(s, part)); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func queue(r *sim.Result) (*plot.Plot, error) {
	p := panel("Jobs", "hours", "jobs")
	if err := line(p, "waiting", 1,
		curve(r.Story, func(x *sim.Sample) float64 { return float64(x.Waiting) })); err != nil {
		return nil, err
	}
	if paused := func(x sim.Sample) bool { return x.Suspended > 0 }; slices.ContainsFunc(r.Story.Samples, paused) {
		if err := line(p, "suspended", 2,
			curve(r.Story, func(x *sim.Sample) float64 { return float64(x.Suspended) })); err != nil {
			return nil, err
		}
	}
	return p, line(p, "running", 0, curve(r.Story, func(x *sim.Sample) float64 { return float64(x.Running) }))
}

// slowdowns draws the distribution of the slowdowns of each class.
func slowdowns(r *sim.Result) (*plot.Plot, error) {
	p := panel("Slowdown", "slowdown", "part of the jobs")
	p.Y.Min, p.Y.Max = 0, 1
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	p.X.Min, p.X.Max = 1, 10
	for i, class := range []jobspec.Class{jobspec.TE, jobspec.BE} {
		values := slices.Sorted(slices.Values(r.Story.Slowdowns[class]))
		if len(values) == 0 {
			continue
		}
		points := plotter.XYs{{X: values[0]}}
		for k := 0; k < len(values); k += 1 + len(values)/maxCurve {
			points = append(points, plotter.XY{X: values[k], Y: float64(k+1) / float64(len(values))})
		}
		last := values[len(values)-1]
		points = append(points, plotter.XY{X: last, Y: 1})
		p.X.Max = math.Max(p.X.Max, last)
		if err := line(p, string(class), 1-i, points); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// shares draws the share of GPUs over time of the accounts that held most, or of cores if there are
// no GPUs.
func shares(r *sim.Result) (*plot.Plot, error) {
	s := r.Story
	what, all, of := "GPUs", s.Capacity.GPUs, func(x *sim.Sample) []int64 { return x.GPUs }
	if all == 0 {
		what, all, of = "cores", s.Capacity.Cores, func(x *sim.Sample) []int64 { return x.Cores }
	}
	sums := make([]float64, len(s.Accounts))
	for i := range s.Samples[:max(0, len(s.Samples)-1)] {
		for a, held := range of(&s.Samples[i]) {
			sums[a] += float64(held) * float64(s.Samples[i+1].At-s.Samples[i].At)
		}
	}
	order := make([]int, len(s.Accounts))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(sums[b], sums[a]) })
	title := "Accounts"
	if n := len(order); n > maxShares {
		title += fmt.Sprintf("; the %d of %d that held most", maxShares, n)
	}
	p := panel(title, "hours", "% of the "+what)
	p.Y.Min = 0
	for i, a := range order[:min(maxShares, len(order))] {
		points := curve(s, func(x *sim.Sample) float64 {
			if held := of(x); a < len(held) {
				return percentage * float64(held[a]) / float64(max(1, all))
			}
			return 0
		})
		if err := line(p, s.Accounts[a], i, points); err != nil {
			return nil, err
		}
	}
	return p, nil
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

// jobs draws every attempt as bars over time: one bar for the GPUs that it held side by side on a
// node.
func jobs(r *sim.Result) (*plot.Plot, error) {
	s := r.Story
	title := "Attempts on the GPUs of the nodes; those that were stopped end in black"
	if s.NodeGPUs == 0 {
		title = "Attempts on the nodes; those that were stopped end in black"
	}
	spans := beginning(s.Spans, maxSpans)
	if len(spans) < len(s.Spans) {
		title += fmt.Sprintf("; the first %d of %d", len(spans), len(s.Spans))
	}
	p := panel(title, "hours", "node")
	p.Add(&bars{spans, s.Nodes, max(1, s.NodeGPUs)})
	for i, class := range []jobspec.Class{jobspec.TE, jobspec.BE} {
		if l, err := plotter.NewLine(plotter.XYs{{}, {}}); err == nil {
			l.Color = colour(1 - i)
			p.Legend.Add(string(class), l)
		}
	}
	return p, nil
}

// bars are attempts as rectangles on a number of nodes with so many GPUs each.
type bars struct {
	spans       []sim.Span
	nodes, gpus int
}

// DataRange implements plot.DataRanger.
func (b *bars) DataRange() (xmin, xmax, ymin, ymax float64) {
	xmin, ymax = math.Inf(1), math.Max(1, float64(b.nodes))
	for i := range b.spans {
		s := &b.spans[i]
		xmin, xmax = math.Min(xmin, float64(s.Start)/hourMS), math.Max(xmax, float64(s.End)/hourMS)
	}
	if len(b.spans) == 0 {
		xmin = 0
	}
	return xmin, math.Max(xmax, xmin+1e-6), 0, ymax
}

// Plot implements plot.Plotter.
func (b *bars) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	for i := range b.spans {
		s := &b.spans[i]
		k := 0
		if s.Class == jobspec.TE {
			k = 1
		}
		left, right := x(float64(s.Start)/hourMS), x(float64(s.End)/hourMS)
		for _, row := range s.Rows {
			from, to := b.lane(&row, i)
			low, high := y(from), y(to)
			c.FillPolygon(colour(k), []vg.Point{{X: left, Y: low}, {X: right, Y: low}, {X: right, Y: high}, {X: left, Y: high}})
			if s.Stopped {
				edge := vg.Length(math.Max(float64(left), float64(right)-0.5))
				c.FillPolygon(color.Black, []vg.Point{{X: edge, Y: low}, {X: right, Y: low}, {X: right, Y: high},
					{X: edge, Y: high}})
			}
		}
	}
}

// lane returns the position of a bar: each GPU has a part of its node's height. Workers without a
// GPU lie beside each other, as far as possible.
func (b *bars) lane(row *sim.Row, i int) (from, to float64) {
	const gap = 0.06
	if row.GPUs == 0 {
		from = float64(row.Node) + float64(i%8)/10
		return from, from + 0.1
	}
	height := (1 - gap) / float64(b.gpus)
	from = float64(row.Node) + float64(row.GPU)*height
	return from, from + float64(row.GPUs)*height - gap/4
}
