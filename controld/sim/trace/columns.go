package trace

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rota-hpc/rota/controld/sim/trace/field"
	"github.com/rota-hpc/rota/jobspec"
)

// extraColumns may be added to any table of jobs. They supply the fields that public traces leave
// out. A line may leave each of them empty.
var extraColumns = []string{
	"name", "account", "priority", "workers", "min_workers", "max_workers", "workers_per_node", "time_limit_s",
	"grace_s", "restart_s",
	"models", "speed", "locality", "network", "pauses",
}

// readExtras reads the columns of extraColumns that a line has.
func readExtras(r *row, j *Job) {
	if !r.extras {
		return
	}
	for _, c := range []struct {
		column string
		to     *string
	}{{"name", &j.Name}, {"account", &j.Account}} {
		if r.has(c.column) {
			*c.to = r.text(c.column)
		}
	}
	for _, c := range []struct {
		column string
		to     *int
	}{
		{"workers", &j.Workers}, {"min_workers", &j.MinWorkers}, {"max_workers", &j.MaxWorkers}, {"workers_per_node",
			&j.PerNode},
	} {
		if r.has(c.column) {
			*c.to = int(r.whole(c.column, 1, MaxWorkers))
		}
	}
	for _, c := range []struct {
		column string
		to     *int64
	}{{"time_limit_s", &j.Limit}, {"grace_s", &j.Grace}, {"restart_s", &j.Restart}} {
		if r.has(c.column) {
			*c.to = r.scaled(c.column, second, MaxTime)
		}
	}
	if r.has("priority") {
		j.Priority = int(r.whole("priority", 0, 100))
	}
	if r.has("models") {
		j.Models = models(r.text("models"))
	}
	if r.has("network") {
		j.Model = r.text("network")
	}
	if r.has("pauses") {
		switch text := r.text("pauses"); text {
		case "yes", "no":
			j.Pauses = text == "yes"
		default:
			r.fail("pauses", fmt.Errorf("%q is neither yes nor no", field.Shorten(text)))
		}
	}
	readSpeed(r, j)
}

// readSpeed reads how the speed of a job depends on the number and the place of its workers.
func readSpeed(r *row, j *Job) {
	if r.has("speed") {
		c, err := ParseCurve(r.text("speed"))
		if err != nil {
			r.fail("speed", err)
			return
		}
		j.Scaling = c
	}
	if r.has("locality") {
		l, err := ParseLocality(r.text("locality"))
		if err != nil {
			r.fail("locality", err)
		}
		j.Locality = l
	}
}

// models splits a list of GPU models at bars, without repetitions.
func models(text string) []string {
	var list []string
	for m := range strings.SplitSeq(text, "|") {
		if m = strings.TrimSpace(m); !slices.Contains(list, m) {
			list = append(list, m)
		}
	}
	return list
}

// ParseCurve reads "1=1 2=1.9 4=3.5": numbers of workers, each with the speed relative to that
// which the job's Work assumes.
func ParseCurve(text string) (Curve, error) {
	var points []Point
	for word := range strings.FieldsSeq(text) {
		count, rate, ok := strings.Cut(word, "=")
		if !ok {
			return nil, fmt.Errorf("%q does not have the form WORKERS=SPEED", field.Shorten(word))
		}
		n, err := field.Whole(count, 1, MaxWorkers)
		if err != nil {
			return nil, fmt.Errorf("the workers of %q: %w", field.Shorten(word), err)
		}
		millionths, err := field.Scaled(rate, FullRate, maxRate)
		if err != nil {
			return nil, fmt.Errorf("the speed of %q: %w", field.Shorten(word), err)
		}
		points = append(points, Point{int(n), millionths})
	}
	return NewCurve(points)
}

// ParseLocality reads "node=0.98 rack=0.9 across=0.6": the part of its speed that a job keeps when
// its workers are no nearer than that. A spread that is not named costs as much as the next nearer
// one. The spread island is the reference.
func ParseLocality(text string) (Locality, error) {
	var l Locality
	named := [Across + 1]bool{}
	for word := range strings.FieldsSeq(text) {
		name, part, ok := strings.Cut(word, "=")
		s := slices.IndexFunc([]Spread{OneIsland, OneNode, OneRack, Across},
			func(s Spread) bool { return s.String() == name })
		if !ok || s < 0 {
			return l, fmt.Errorf("%q does not have the form island=PART, node=PART, rack=PART or across=PART",
				field.Shorten(word))
		}
		if named[s] {
			return l, fmt.Errorf("%s is given twice", name)
		}
		millionths, err := field.Scaled(part, FullRate, FullRate)
		if err == nil && millionths == 0 {
			err = errors.New("is zero")
		}
		if err != nil {
			return l, fmt.Errorf("the part of %q: %w", field.Shorten(word), err)
		}
		l[s], named[s] = millionths, true
	}
	for s := OneNode; s <= Across; s++ {
		if !named[s] {
			l[s] = l[s-1]
		}
	}
	return l, nil
}

// class reads TE or BE.
func class(r *row, column string) jobspec.Class {
	switch strings.ToLower(r.text(column)) {
	case "te":
		return jobspec.TE
	case "be":
		return jobspec.BE
	}
	r.fail(column, fmt.Errorf("%q is neither TE nor BE", field.Shorten(r.text(column))))
	return jobspec.BE
}
