package simulate

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/terminal/progress"
	"github.com/rota-hpc/rota/controld/sim"
	"github.com/rota-hpc/rota/controld/sim/trace"
	"github.com/rota-hpc/rota/controld/sim/trace/synth"
)

// readFiles reads each file once, even for several runs, because a pipe cannot be read again.
func (s *simulation) readFiles() error {
	s.files = map[string]*trace.Trace{}
	names := s.fileNames()
	read := make([]*trace.Trace, len(names))
	if err := inParallel(len(names), func(i int) (err error) {
		read[i], err = s.readFile(names[i])
		return err
	}); err != nil {
		return err
	}
	for i, name := range names {
		s.files[name] = read[i]
	}
	return nil
}

// fileNames returns the names of the traces that are files, each once.
func (s *simulation) fileNames() []string {
	var names []string
	for _, name := range s.traces {
		if !isGenerated(name) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// isGenerated reports whether a trace is generated, and not a file.
func isGenerated(name string) bool { return strings.HasPrefix(name, synth.GeneratorPrefix) }

// readFile reads a trace from a file, or from standard input for "-".
func (s *simulation) readFile(name string) (*trace.Trace, error) {
	in := s.env.Stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			e := exit.Usagef("trace: %v", err)
			if !slices.Contains(s.histories, name) {
				e.Hint = "a trace is a file, - for standard input, or gen:NAME as listed by \"rota sim --list\""
			}
			return nil, e
		}
		defer f.Close()
		in = f
	}
	o := s.options
	o.Name = name
	if slices.Contains(s.histories, name) {
		o.Format = trace.History
	}
	var err error
	if o.Profiles, err = s.profiles(name); err != nil {
		return nil, err
	}
	t, err := trace.Read(progress.Reader(in, &s.bytesRead), o)
	if err == nil {
		return t, nil
	}
	e := exit.Usagef("%s: %v", name, err)
	switch {
	case errors.Is(err, trace.ErrFormat):
		e.Hint = "set --format; docs/simulating.md has the columns of each format"
	case errors.Is(err, trace.ErrNoProfiles):
		e.Hint = "set --profiles DIR, if they are not in the folder profiles beside the trace"
	}
	return nil, e
}

// copyTrace returns the jobs of a trace for one run, which may change them.
func (s *simulation) copyTrace(name string, seed uint64) (*trace.Trace, error) {
	if !isGenerated(name) {
		t := *s.files[name]
		if len(s.traces)*len(s.seeds) > 1 { // other runs need the original
			t.Jobs = slices.Clone(t.Jobs)
		}
		return &t, nil
	}
	g, err := synth.ParseGenerator(name)
	if err != nil {
		return nil, exit.Usagef("%v", err)
	}
	var t *trace.Trace
	if s.loop == nil {
		t, err = g.Trace(seed, trace.Capacity(s.setup.Nodes))
	} else {
		var source synth.Source
		if source, err = g.Source(seed); err == nil {
			t = synth.Take(name, source)
		}
	}
	if err != nil {
		return nil, exit.Usagef("%v", err)
	}
	return t, nil
}

// workload returns the jobs of a trace, changed as the command line says.
func (s *simulation) workload(ctx context.Context, name string, seed uint64) (*trace.Trace, error) {
	t, err := s.copyTrace(name, seed)
	if err != nil {
		return nil, err
	}
	if seed == s.seeds[0] {
		s.reportUnusedOptions(t)
	}
	if s.redraw {
		t = synth.Redraw(t, seed)
	}
	if err := s.shape.apply(t, seed); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if s.inflate > 0 {
		if t, err = synth.Inflate(t, trace.Capacity(s.setup.Nodes).GPUs, s.inflate, seed); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	if s.loop != nil {
		if t, err = s.closeLoop(ctx, t, seed); err != nil {
			return nil, err
		}
	}
	return t, s.scaleArrivals(t)
}

// closeLoop sets arrivals so that the demand under a policy stays constant.
func (s *simulation) closeLoop(ctx context.Context, t *trace.Trace, seed uint64) (*trace.Trace, error) {
	setup := s.setupFor(ctx, t.Name, s.loop.policy, seed)
	counted := s.count(&setup, len(t.Jobs))
	closed, err := sim.CloseLoop(sim.Replay(t), t.Name, s.loop.load, setup)
	counted.over()
	if err != nil {
		return nil, err
	}
	closed.Format, closed.Skipped, closed.Bad = t.Format, t.Skipped, t.Bad
	return closed, nil
}

// scaleArrivals makes jobs arrive faster or slower, for --rate.
func (s *simulation) scaleArrivals(t *trace.Trace) error {
	if s.rate == 0 {
		return nil
	}
	if err := synth.Pace(t, s.rate, s.setup.Tick); err != nil {
		return fmt.Errorf("%s: %w", t.Name, err)
	}
	return nil
}

// profiles reads the measured speeds for a trace, from --profiles or the folder profiles beside it.
// It returns nil if there are none.
func (s *simulation) profiles(name string) (*trace.Profiles, error) {
	dir := s.speeds
	if dir == "" {
		dir = filepath.Join(filepath.Dir(name), "profiles")
	}
	files, err := filepath.Glob(filepath.Join(dir, "*", "*.csv"))
	if err != nil || len(files) == 0 {
		if s.speeds != "" {
			return nil, exit.Usagef("--profiles %s: no files APPLICATION/*.csv", dir)
		}
		return nil, nil
	}
	p := &trace.Profiles{}
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			return nil, exit.Usagef("--profiles: %v", err)
		}
		err = p.Add(filepath.ToSlash(file), f)
		f.Close()
		if err != nil {
			return nil, exit.Usagef("%v", err)
		}
	}
	return p, nil
}
