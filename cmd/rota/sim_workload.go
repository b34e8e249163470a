package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/rota-hpc/rota/controld/sim"
	"github.com/rota-hpc/rota/controld/sim/trace"
)

// workload returns the jobs of one trace, drawn and changed as the command line says.
func (s *simulation) workload(ctx context.Context, name string, seed uint64) (*trace.Trace, error) {
	t, source, err := s.read(name, seed)
	if err != nil {
		return nil, err
	}
	if t != nil {
		if s.redraw {
			t = trace.Redraw(t, seed)
		}
		if err := s.shape.apply(t, seed); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	if s.inflate > 0 && t != nil {
		if t, err = trace.Inflate(t, trace.Capacity(s.setup.Nodes).GPUs, s.inflate, seed); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	if s.loop == nil {
		return t, s.pace(t)
	}
	if source == nil {
		source = sim.Replay(t)
	}
	setup := s.setupFor(ctx, name, s.loop.policy, seed)
	closed, err := sim.CloseLoop(source, name, s.loop.load, setup)
	if err != nil {
		return nil, err
	}
	if err := s.pace(closed); err != nil {
		return nil, err
	}
	if t == nil {
		return closed, s.shape.apply(closed, seed)
	}
	closed.Format, closed.Skipped, closed.Bad = t.Format, t.Skipped, t.Bad
	return closed, nil
}

// pace lets jobs arrive faster or slower, if that is asked for.
func (s *simulation) pace(t *trace.Trace) error {
	if s.rate == 0 {
		return nil
	}
	if err := trace.Pace(t, s.rate, s.setup.Tick); err != nil {
		return fmt.Errorf("%s: %w", t.Name, err)
	}
	return nil
}

// read returns a trace, or a source of jobs where arrivals are made by a closed loop.
func (s *simulation) read(name string, seed uint64) (*trace.Trace, trace.Source, error) {
	if strings.HasPrefix(name, trace.GeneratorPrefix) {
		g, err := trace.ParseGenerator(name)
		if err != nil {
			return nil, nil, &usageError{text: err.Error()}
		}
		if s.loop != nil {
			source, err := g.Source(seed)
			if err != nil {
				return nil, nil, &usageError{text: err.Error()}
			}
			return nil, source, nil
		}
		t, err := g.Trace(seed, trace.Capacity(s.setup.Nodes))
		if err != nil {
			return nil, nil, &usageError{text: err.Error()}
		}
		return t, nil, nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, nil, &usageError{text: "trace: " + err.Error()}
	}
	defer closeQuietly(f)
	o := s.options
	o.Name = name
	if o.Profiles, err = s.profiles(name); err != nil {
		return nil, nil, err
	}
	t, err := trace.Read(f, o)
	if err != nil {
		return nil, nil, &usageError{text: fmt.Sprintf("%s: %v", name, err)}
	}
	s.nameSkipped(t)
	return t, nil, nil
}

// profiles reads the measured speeds that belong to a trace: of --profiles, or of the folder profiles beside it. Nil if there are none.
func (s *simulation) profiles(name string) (*trace.Profiles, error) {
	dir := s.speeds
	if dir == "" {
		dir = filepath.Join(filepath.Dir(name), "profiles")
	}
	files, err := filepath.Glob(filepath.Join(dir, "*", "*.csv"))
	if err != nil || len(files) == 0 {
		if s.speeds != "" {
			return nil, usagef("--profiles %s has no APPLICATION/*.csv", dir)
		}
		return nil, nil
	}
	p := &trace.Profiles{}
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			return nil, &usageError{text: "--profiles: " + err.Error()}
		}
		err = p.Add(filepath.ToSlash(file), f)
		closeQuietly(f)
		if err != nil {
			return nil, &usageError{text: err.Error()}
		}
	}
	return p, nil
}
