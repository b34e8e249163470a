// Package picture draws the results of simulations as SVG: one picture of one workload under any number of
// policies, with a curve for each.
package picture

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/rota-hpc/rota/controld/sim"
	"github.com/rota-hpc/rota/jobspec"
)

// Run is one result to draw, with its [sim.Story].
type Run struct {
	Name   string // in the legend, such as the policy
	Result *sim.Result
}

// Sizes of panels, in pixels, and how many points a curve has.
const (
	panelHeight = 250.0
	pointsEach  = 400
)

// ErrNoStory refuses a result that was made without the data of plots.
var ErrNoStory = errors.New("the result has no time series to draw")

// Draw returns a picture of runs of one workload, with a curve for each run. It shows the capacity that was held,
// the jobs that waited and ran, and the slowdowns of each class. The picture of a single run also has the shares
// of the accounts, and each attempt on its nodes.
func Draw(title string, runs []Run) ([]byte, error) {
	if len(runs) == 0 {
		return nil, ErrNoStory
	}
	names := make([]string, len(runs))
	var end int64
	for i, r := range runs {
		if r.Result.Story == nil {
			return nil, fmt.Errorf("%s: %w", r.Name, ErrNoStory)
		}
		names[i] = r.Name
		for _, s := range r.Result.Story.Samples {
			end = max(end, s.At)
		}
	}
	d := &drawing{runs: runs, end: end, unit: unitFor(end), top: margin + lineStep}
	d.text("title", "start", margin, margin+fontSize, width-2*margin, title)
	d.top += 10
	d.top += d.legend("legend", margin, d.top, width-2*margin, names, d.curveMark)
	d.overTime()
	d.slowdowns()
	d.endRow()
	if len(runs) == 1 {
		d.accounts(runs[0].Result.Story)
		d.attempts(runs[0].Result.Story)
	}
	return d.whole(d.top+margin, title), nil
}

// drawing is a picture in the making: panels in rows of two.
type drawing struct {
	canvas
	runs  []Run
	end   int64 // of the longest run, in ms
	unit  timeUnit
	top   float64 // of the next panel
	right bool    // the next panel is the right one of a row
}

// timeAxis is that of all panels over time, so that they can be compared.
func (d *drawing) timeAxis() axis {
	return linear(d.unit.name, float64(max(1, d.end))/d.unit.ms, false)
}

// place returns a panel in the next place of a row.
func (d *drawing) place(title string, x, y axis) *panel {
	left := margin
	if d.right {
		left = width / 2
	}
	p := newPanel(title, x, y, left, d.top, width/2-margin, panelHeight)
	if d.right {
		d.top += panelHeight
	}
	d.right = !d.right
	return p
}

// endRow begins a new row.
func (d *drawing) endRow() {
	if d.right {
		d.right = false
		d.top += panelHeight
	}
}

// curve is a quantity over time.
type curve struct {
	title, unit string
	whole       bool
	most        float64 // the upper end of the axis; 0: as needed
	of          func(*sim.Story, *sim.Sample) float64
}

// overTime draws a panel for each quantity that some run has.
func (d *drawing) overTime() {
	part := func(held, all int64) float64 { return 100 * float64(held) / float64(max(1, all)) }
	for _, q := range []curve{
		{"GPUs held", "% of the cluster", false, 100, func(s *sim.Story, x *sim.Sample) float64 {
			return part(x.Held.GPUs, s.Capacity.GPUs)
		}},
		{"Cores held", "% of the cluster", false, 100, func(s *sim.Story, x *sim.Sample) float64 {
			return part(x.Held.Cores, s.Capacity.Cores)
		}},
		{"Memory held", "% of the cluster", false, 100, func(s *sim.Story, x *sim.Sample) float64 {
			return part(int64(x.Held.Memory), int64(s.Capacity.Memory))
		}},
		{"Waiting", "jobs", true, 0, func(_ *sim.Story, x *sim.Sample) float64 { return float64(x.Waiting) }},
		{"Running", "jobs", true, 0, func(_ *sim.Story, x *sim.Sample) float64 { return float64(x.Running) }},
		{"Suspended", "jobs", true, 0, func(_ *sim.Story, x *sim.Sample) float64 { return float64(x.Suspended) }},
	} {
		all := make([]series, len(d.runs))
		top := 0.0
		for i, r := range d.runs {
			s := r.Result.Story
			all[i] = d.sampled(r.Name, s, func(x *sim.Sample) float64 { return q.of(s, x) })
			top = math.Max(top, slices.Max(all[i].y))
		}
		if top == 0 && q.title != "Waiting" && q.title != "Running" {
			continue // no run has it, such as GPUs in a cluster without any
		}
		p := d.place(q.title, d.timeAxis(), linear(q.unit, math.Max(q.most, top), q.whole))
		p.frame(&d.canvas)
		p.curves(&d.canvas, all)
	}
}

// sampled returns the means of a quantity over equal parts of the time of all runs. After the end of its run it is
// 0. Every series so has the same length.
func (d *drawing) sampled(name string, s *sim.Story, of func(*sim.Sample) float64) series {
	line := series{name, make([]float64, pointsEach), make([]float64, pointsEach)}
	each := float64(max(1, d.end)) / pointsEach
	for k := range line.x {
		line.x[k] = (float64(k) + 0.5) * each / d.unit.ms
	}
	for i := range s.Samples {
		value, from := of(&s.Samples[i]), float64(s.Samples[i].At)
		if i+1 == len(s.Samples) || value == 0 {
			continue // what is held at the end is held for no time
		}
		to := float64(s.Samples[i+1].At)
		for k := int(from / each); k < pointsEach && float64(k)*each < to; k++ {
			shared := math.Min(to, float64(k+1)*each) - math.Max(from, float64(k)*each)
			line.y[k] += value * math.Max(0, shared) / each
		}
	}
	return line
}

// slowdowns draws the distribution of the slowdowns of each class: the part of its jobs with at most a slowdown.
func (d *drawing) slowdowns() {
	for _, class := range []jobspec.Class{jobspec.TE, jobspec.BE} {
		var all []series
		most, jobs := 1.0, 0
		for _, r := range d.runs {
			values := slices.Sorted(slices.Values(r.Result.Story.Slowdowns[class]))
			line := series{r.Name, make([]float64, pointsEach), make([]float64, pointsEach)}
			for k := range line.x {
				line.x[k], line.y[k] = 1, 0 // the curve of no jobs stays at the beginning
				if n := len(values); n > 0 {
					at := float64(k) / (pointsEach - 1)
					line.x[k], line.y[k] = values[min(n-1, int(at*float64(n)))], 100*at
				}
			}
			if n := len(values); n > 0 {
				most, jobs = math.Max(most, values[n-1]), max(jobs, n)
			}
			all = append(all, line)
		}
		if jobs == 0 {
			continue
		}
		name := map[jobspec.Class]string{jobspec.TE: "TE", jobspec.BE: "BE"}[class]
		p := d.place("Slowdown of "+name+" jobs", decades("time from submission to end, by run time", most),
			linear("% of the jobs that have it or less", 100, false))
		p.frame(&d.canvas)
		p.curves(&d.canvas, all)
	}
}
