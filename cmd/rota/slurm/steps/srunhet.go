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

// A step of a heterogeneous job has a part in each component that it uses. srun --het-group=0,1 a
// runs a in two components; srun a : b runs a in one component and b in the next.

// ofPart are the flags of srun that apply to each part of a step separately. All other flags apply
// to the whole step and belong into the first part.
var ofPart = map[string]bool{"het-group": true, "nodes": true, "ntasks": true, "ntasks-per-node": true,
	"nodelist": true, "exclude": true, "relative": true, "distribution": true, "cpus-per-task": true, "mem": true,
	"mem-per-cpu": true, "gpus": true, "gpus-per-node": true, "gpus-per-task": true, "gres": true, "exclusive": true,
	"exact": true, "whole": true, "chdir": true, "export": true, "multi-prog": true, "gpu-bind": true,
	"overcommit": true, "cpus-per-gpu": true, "ntasks-per-gpu": true}

// propagated are the flags that later parts inherit unless they set their own value.
var propagated = []string{"distribution", "exclude", "export", "chdir"}

// ofComponent are the flags whose variables describe a component of the job: NAME for the first,
// NAME_HET_GROUP_1 for the second.
var ofComponent = map[string]bool{"nodes": true, "ntasks": true, "ntasks-per-node": true, "distribution": true,
	"gpus": true, "gpus-per-node": true, "gpus-per-task": true, "ntasks-per-gpu": true}

// readSrun parses the command line and the variables of srun. The result describes the first part
// of the step; its field more has the later parts.
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
				return nil, fmt.Errorf("a step has one part in each component, but component %d is named twice", group)
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

// splitParts splits a command line at words that consist of a colon.
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

// inherit copies the propagated flags to later parts.
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

// checkParts refuses whole-step flags in later parts, and gives a part without a program the
// program of the next part.
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
				return fmt.Errorf("--%s=%s applies to the whole step, not to one component: write it before the first colon",
					name, later.values[name])
			}
		}
		if later.is("multi-prog") || line.is("multi-prog") {
			return errors.New("--multi-prog cannot be used with more than one component of a job")
		}
	}
	return nil
}

// variable returns the value of an environment variable; with of, the variable of the line's
// component.
func (line *srunLine) variable(name string, of bool) string {
	if of && line.group > 0 {
		name += "_HET_GROUP_" + strconv.Itoa(line.group)
	}
	return line.Getenv(name)
}

// addParts adds the later parts to the request for a step.
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

// eachPart calls do for a request and for each of its later parts.
func eachPart(r *api.StepRequest, do func(*api.StepRequest)) {
	do(r)
	for i := range r.More {
		do(&r.More[i])
	}
}
