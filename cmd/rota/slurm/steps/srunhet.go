package steps

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/rota-hpc/rota/cmd/rota/slurm/tool"
	"github.com/rota-hpc/rota/controld/api"
)

// A step of a heterogeneous job has a part in one component of the job, or in several. srun
// --het-group=0,1 a runs a in two components; srun a : b runs another program in each.

// ofPart are the flags of srun that are for each part of a step. All others are for the whole step, and are
// written in the first part.
var ofPart = map[string]bool{"het-group": true, "nodes": true, "ntasks": true, "ntasks-per-node": true,
	"nodelist": true, "exclude": true, "relative": true, "distribution": true, "cpus-per-task": true, "mem": true,
	"mem-per-cpu": true, "gpus": true, "gpus-per-node": true, "gpus-per-task": true, "gres": true, "exclusive": true,
	"exact": true, "whole": true, "chdir": true, "export": true, "multi-prog": true, "gpu-bind": true,
	"overcommit": true, "cpus-per-gpu": true, "ntasks-per-gpu": true}

// propagated are those of them that hold for later parts too, unless these have their own.
var propagated = []string{"distribution", "exclude", "export", "chdir"}

// ofComponent are the flags whose variables describe a component of the job: NAME describes the
// first one, NAME_HET_GROUP_1 the second.
var ofComponent = map[string]bool{"nodes": true, "ntasks": true, "ntasks-per-node": true, "distribution": true,
	"gpus": true, "gpus-per-node": true, "gpus-per-task": true, "ntasks-per-gpu": true}

// readSrun reads the command line and the variables of srun. The result is about the first part of the step,
// and has those that follow.
func readSrun(t *tool.Tool, args []string) (*srunLine, error) {
	var lines []*srunLine
	var before *srunLine
	for i, part := range splitParts(args) {
		line, err := readPart(t, part)
		if err != nil {
			return nil, err
		}
		line.inherit(before)
		before = line
		groups := []int{i}
		if text, given := line.values["het-group"]; given {
			if groups, err = readTaskNumbers(text); err != nil {
				return nil, fmt.Errorf("Invalid --het-group specification: %q: write 0,2-3", text)
			}
			slices.Sort(groups)
		}
		for _, group := range slices.Compact(groups) {
			if slices.ContainsFunc(lines, func(o *srunLine) bool { return o.group == group }) {
				return nil, fmt.Errorf("a step has one part in a component, and two in component %d", group)
			}
			one := *line
			one.values, one.group = maps.Clone(line.values), group
			if err := one.readVariables(); err != nil {
				return nil, err
			}
			lines = append(lines, &one)
		}
	}
	first := lines[0]
	first.more = lines[1:]
	return first, first.checkParts()
}

// splitParts splits a command line at words that are a colon.
func splitParts(args []string) [][]string {
	parts := [][]string{nil}
	for _, word := range args {
		if word == ":" {
			parts = append(parts, nil)
			continue
		}
		parts[len(parts)-1] = append(parts[len(parts)-1], word)
	}
	return parts
}

// inherit takes over what holds for later parts too.
func (line *srunLine) inherit(before *srunLine) {
	if before == nil {
		return
	}
	for _, name := range propagated {
		if before.typed[name] && !line.typed[name] {
			line.values[name], line.typed[name] = before.values[name], true
		}
	}
}

// checkParts refuses parts that say what only the whole step can have, and gives those without a program
// that of the next.
func (line *srunLine) checkParts() error {
	for i := len(line.more) - 1; i >= 0; i-- {
		later, earlier := line.more[i], line
		if i > 0 {
			earlier = line.more[i-1]
		}
		if len(earlier.words) == 0 {
			earlier.words = later.words
		}
		for name := range later.typed {
			if !ofPart[name] && line.values[name] != later.values[name] {
				return fmt.Errorf("--%s=%s is for the whole step, and not for one component: write it in front of the first "+
					"colon", name, later.values[name])
			}
		}
		if later.is("multi-prog") || line.is("multi-prog") {
			return errors.New("--multi-prog cannot be used with more than one component of a job")
		}
	}
	return nil
}

// variable returns a variable that is about the component of the job that the line is for, if of is true.
func (line *srunLine) variable(name string, of bool) string {
	if of && line.group > 0 {
		name += "_HET_GROUP_" + strconv.Itoa(line.group)
	}
	return line.Getenv(name)
}

// addParts adds the parts of a step that follow the first.
func (line *srunLine) addParts(r *api.StepRequest, own bool) error {
	for _, later := range line.more {
		part := &api.StepRequest{Group: later.group}
		if err := later.readPart(part, own); err != nil {
			return err
		}
		if part.Overlap, part.NoWait, part.Name = false, false, ""; slices.Equal(part.Env, r.Env) {
			part.Env = nil
		}
		r.More = append(r.More, *part)
	}
	return nil
}

// eachPart calls do with a request and with those of its later parts.
func eachPart(r *api.StepRequest, do func(*api.StepRequest)) {
	do(r)
	for i := range r.More {
		do(&r.More[i])
	}
}
