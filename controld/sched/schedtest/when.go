package schedtest

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

func (w *World) setWhen(spec *jobspec.Job, options map[string]string) error {
	spec.OnDependencyFailure = options["on-never"]
	for k, field := range map[string]*string{"begin": &spec.Begin, "deadline": &spec.Deadline} {
		if options[k] == "" {
			continue
		}
		ms, err := milliseconds(options[k])
		if err != nil {
			return err
		}
		*field = jobspec.FormatTime((int64(w.Now) + ms) / 1000)
	}
	for text := range strings.SplitSeq(options["needs"], ";") {
		if text == "" {
			continue
		}
		d, err := w.dependency(text)
		if err != nil {
			return err
		}
		spec.Dependencies = append(spec.Dependencies, d)
	}
	return nil
}

func (w *World) dependency(text string) (jobspec.Dependency, error) {
	d := jobspec.Dependency{}
	head, names, any := strings.Cut(text, "?")
	if any {
		d.Match = "any"
	} else {
		head, names, _ = strings.Cut(text, ":")
	}
	var delay string
	var delayed bool
	if d.Type, delay, delayed = strings.Cut(head, "+"); delayed {
		ms, err := milliseconds(delay)
		if err != nil {
			return d, err
		}
		d.Delay = jobspec.Seconds(ms / 1000)
	}
	for name := range strings.SplitSeq(names, ",") {
		if name == "" {
			continue
		}
		d.Jobs = append(d.Jobs, w.reference(name))
	}
	return d, nil
}

// reference writes a job of the script as its user would: by number, an element as 12_3. An unknown
// name stays a name.
func (w *World) reference(name string) string {
	v := w.State.View()
	if id := w.Ids[name]; id != 0 {
		return v.NameOf(id)
	}
	return name
}

// update changes jobs, as an operator: limit, more (time), priority, name.
func (w *World) update(names []string, options map[string]string) error {
	c := fsm.UpdateJobs{By: Ada.UID, Admin: true}
	for k, v := range options {
		switch k {
		case "limit", "more":
			ms, err := milliseconds(v)
			if err != nil {
				return err
			}
			seconds := jobspec.Seconds(ms / 1000)
			if c.TimeLimit = &seconds; k == "more" {
				c.TimeLimit, c.AddTime = nil, &seconds
			}
		case "priority":
			n, err := strconv.Atoi(v)
			if err != nil {
				return err
			}
			c.Priority = &n
		case "name":
			c.Name = &v
		default:
			return fmt.Errorf("no property %q to update", k)
		}
	}
	for _, name := range names {
		c.IDs = append(c.IDs, w.Ids[name])
	}
	result, err := w.Apply(c)
	if err != nil {
		return err
	}
	for _, r := range result.([]model.ControlResult) {
		if r.Err != nil {
			return r.Err
		}
	}
	return nil
}

// called puts the names of jobs in place of their numbers.
func (w *World) called(text string) string {
	for _, id := range slices.Backward(slices.Sorted(maps.Keys(w.Names))) {
		text = strings.ReplaceAll(text, fmt.Sprintf("job %d", id), w.Names[id])
	}
	return text
}

// whenOptions are the options of submit that say when a job may start:
//
//	needs=afterok:a,b;after+1m:c;afterany?a,b;singleton   dependencies, all of them
//	on-never=hold                                         what follows if they can never be met
//	begin=10m deadline=1h                                 times, from now
//
// A dependency with ? is on any of its jobs; + is followed by a delay.
var whenOptions = []string{"needs", "on-never", "begin", "deadline"}
