package config

import (
	"cmp"
	"fmt"
	"time"

	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/jobspec"
)

// check reports wrong values of a file with their places: those that no attribute can find by
// itself.
func (f *File) check(bad func(path, text, hint string)) {
	f.checkRepeated(bad)
	// Blocks that may be written once.
	if l := f.Limits; l != nil {
		for name, n := range map[string]int{"max_submit_jobs": l.MaxSubmitJobs, "max_requests": l.MaxRequests,
			"max_reads": l.MaxReads, "max_processor": l.MaxProcessor} {
			if n < 0 {
				bad("limits."+name, fmt.Sprintf("%s = %d: write at least 1", name, n), "")
			}
		}
	}
	if f.Timeouts != nil {
		f.Timeouts.check(bad)
	}
	if h := f.History; h != nil && h.Keep != 0 && h.Keep < cluster.MinHistoryKeep {
		bad("history.keep", fmt.Sprintf("keep = %v: must be at least %v", h.Keep, cluster.MinHistoryKeep),
			`write "365d" for a year, or leave it out to keep all`)
	}
	if f.Lease != nil {
		f.Lease.check(bad)
	}
	if f.Policy != nil {
		f.Policy.check(bad)
	}
}

// checkRepeated reports wrong values in blocks that may be written several times.
func (f *File) checkRepeated(bad func(path, text, hint string)) {
	// Rules that several blocks share.
	seen := map[string]bool{}
	once := func(path, what string) {
		if seen[what] {
			bad(path, what+" is written twice: put all settings into one block", "")
		}
		seen[what] = true
	}
	weight := func(path, of string, w *int) {
		if w != nil && *w < 1 {
			bad(path+".weight", fmt.Sprintf("%s: weight = %d: must be from 1 to %d", of, *w, cluster.MaxWeight), "")
		}
	}
	height := func(path, of string, n *int) {
		if n != nil && (*n < 1 || *n > cluster.MaxOversubscribe) {
			bad(path+".oversubscribe", fmt.Sprintf("%s: oversubscribe = %d: must be from 1 (jobs take no turns) to %d", of, *n,
				cluster.MaxOversubscribe), "")
		}
	}
	// Each kind of block.
	for i, a := range f.Accounts {
		path, of := fmt.Sprintf("account[%d]", i), fmt.Sprintf("account %q", a.Name)
		once(path, of)
		weight(path, of, a.Weight)
		height(path, of, a.Oversubscribe)
		for k, u := range a.Users {
			path, of := fmt.Sprintf("%s.user[%d]", path, k), fmt.Sprintf("%s, user %q", of, u.Name)
			once(path, of)
			weight(path, of, u.Weight)
		}
	}
	for i, q := range f.Queues {
		path := fmt.Sprintf("queue[%d]", i)
		once(path, fmt.Sprintf("queue %q", q.Name))
		for k, u := range q.Users {
			once(fmt.Sprintf("%s.user[%d]", path, k), fmt.Sprintf("queue %q, user %q", q.Name, u.Name))
		}
		height(path, fmt.Sprintf("queue %q", q.Name), q.Oversubscribe)
		q.check(func(field, text, hint string) { bad(path+"."+field, fmt.Sprintf("queue %q: %s", q.Name, text), hint) })
	}
	for i, u := range f.Users {
		once(fmt.Sprintf("user[%d]", i), fmt.Sprintf("user %q", u.Name))
	}
	for i, l := range f.Licenses {
		path, of := fmt.Sprintf("license[%d]", i), fmt.Sprintf("license %q", l.Name)
		once(path, of)
		if !jobspec.ValidName(l.Name) {
			bad(path, of+": this is not a name", "letters, digits, '.', '_' and '-'")
		}
		if l.Count < 0 || l.Count > jobspec.MaxLicenseCount {
			bad(path+".count", fmt.Sprintf("%s: count = %d: must be from 0 to %d", of, l.Count, jobspec.MaxLicenseCount), "")
		}
	}
	f.checkUsers(bad)
}

// check reports settings that no queue can have.
func (q Queue) check(bad func(field, text, hint string)) {
	switch jobspec.Class(q.DefaultClass) {
	case "", jobspec.BE, jobspec.TE:
	default:
		bad("default_class", fmt.Sprintf("unknown class %q", q.DefaultClass), `write "be" or "te"`)
	}
	if q.TEMaxGPUs < 0 {
		bad("te_max_gpus", fmt.Sprintf("te_max_gpus = %d: must not be negative", q.TEMaxGPUs), "")
	}
	if n := q.MaxRequeues; n != nil && *n < 0 {
		bad("max_requeues",
			fmt.Sprintf("max_requeues = %d: write how often a job may ask to be started again, 0 for never", *n), "")
	}
	if _, err := jobspec.ParseNodeLoss(q.OnNodeLost); err != nil {
		bad("on_node_lost", err.Error(), "")
	}
	if q.Name == "" {
		bad("name", "the queue needs a name", "")
	}
	if most := q.MaxTime; most > 0 && q.TEMaxTime > most {
		bad("te_max_time", fmt.Sprintf("te_max_time is %v, but max_time is %v: no job may run longer than max_time",
			q.TEMaxTime, most),
			"")
	}
	if most := q.MaxTime; most > 0 && q.DefaultTime > most {
		bad("default_time", fmt.Sprintf("default_time is %v, but max_time is %v: jobs without a time limit would be refused",
			q.DefaultTime, most), "")
	}
}

// leastSpan is the shortest lease, margin and silence that daemons can keep up with: they speak
// with each other every half of it.
const leastSpan = time.Second

// check reports leases that would end in normal operation, and stop every job of the cluster.
func (l *Lease) check(bad func(path, text, hint string)) {
	def := cluster.DefaultConfig()
	down := cmp.Or(l.NodeDown, time.Duration(def.NodeDownMS)*time.Millisecond)
	if lease := cmp.Or(l.Duration, time.Duration(def.LeaseMS)*time.Millisecond); lease <= down {
		bad("lease.duration", fmt.Sprintf("the lease of %v must be longer than node_down, %v: otherwise leases end, and "+
			"jobs stop, without any failure", lease, down),
			"a longer duration, or a shorter node_down")
	}
	for _, span := range []struct {
		name string
		of   time.Duration
	}{{"duration", l.Duration}, {"margin", l.Margin}, {"node_down", l.NodeDown}} {
		if span.of != 0 && span.of < leastSpan {
			bad("lease."+span.name, fmt.Sprintf("%s of %v is shorter than %v", span.name, span.of, leastSpan), "")
		}
	}
}
