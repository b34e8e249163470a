package progress

import (
	"time"

	"github.com/rota-hpc/rota/jobspec/convergence"
)

// ClassMeter classifies an attempt by the metric that its job names, see [convergence.Meter]. Its
// memory is bounded, whatever the job writes.
//
// It counts wall-clock time: of a processor's time the node knows what the job's cores did, and not
// what its GPUs did. Of the reports of an interval it sees those that are the newest at a sample.
// After a restart of the daemon it begins anew, and reports the class at which it begins.
type ClassMeter struct {
	meter convergence.Meter
	began time.Time // the first report; zero: there was none
	last  time.Time // the last evaluation, or the first report
}

// Report notes a value of the metric. Once in an interval it returns the class, if that has
// changed. origin is what is known of the job's earlier attempts, and is brought up to date.
func (c *ClassMeter) Report(value float64, large bool, now time.Time, origin *convergence.Origin) (
	class convergence.Class, changed bool) {
	if c.began.IsZero() {
		c.began, c.last = now, now
	}
	c.meter.Max, c.meter.Origin = large, *origin
	c.meter.Report(value)
	*origin = c.meter.Origin
	if now.Sub(c.last) < time.Duration(convergence.Use.Interval)*time.Millisecond {
		return "", false
	}
	c.last = now
	return c.meter.Evaluate(now.Sub(c.began).Milliseconds())
}

// maxOrigins is of how many jobs a node remembers the range of the metric: more than run there in a
// day.
const maxOrigins = 1024

// Origins remembers the range of the metric of jobs. So the next attempt of a job on this node is
// measured by all that the job has learned. It does not outlive the daemon, and does not follow a
// job to another node. There the job is measured by its progress from then on. So it is progressing
// again until it has slowed down once more. The zero value is ready for use.
type Origins struct {
	jobs map[int64]*origin
	uses int64
}

type origin struct {
	convergence.Origin
	used int64 // the last use, by number
}

// Of returns the range of a job's metric, to be changed in place. If there are too many, that of
// the job is forgotten that was asked for longest ago.
func (o *Origins) Of(job int64) *convergence.Origin {
	o.uses++
	if one := o.jobs[job]; one != nil {
		one.used = o.uses
		return &one.Origin
	}
	if o.jobs == nil {
		o.jobs = map[int64]*origin{}
	}
	if len(o.jobs) >= maxOrigins {
		oldest := int64(-1)
		for id, one := range o.jobs {
			if oldest < 0 || one.used < o.jobs[oldest].used {
				oldest = id
			}
		}
		delete(o.jobs, oldest)
	}
	o.jobs[job] = &origin{used: o.uses}
	return &o.jobs[job].Origin
}
