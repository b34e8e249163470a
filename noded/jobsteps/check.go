package jobsteps

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// Bounds of requests. They keep sums and products of requests from overflowing.
const (
	countMost  = 1 << 20
	memoryMost = jobspec.Bytes(1) << 40 << 10 // 1 PiB
	timeMost   = jobspec.Seconds(1) << 31     // 68 years
	keyMost    = 64                           // bytes
)

// check refuses a request with values that are impossible whatever the job has.
func check(req *api.StepRequest) error {
	for _, n := range []int{req.Nodes, req.Relative, req.Tasks, req.TasksPerNode, req.CoresPerTask, req.GPUsPerNode,
		req.GPUsPerTask, req.CoresPerGPU, int(req.Memory), int(req.MemoryPerCore), req.GPUs + 1, int(req.Wait),
		int(req.TimeLimit)} {
		if n < 0 {
			return errors.New("the numbers of a step must not be negative")
		}
	}
	if n := max(req.Nodes, req.Relative, req.CoresPerTask, req.GPUs, req.GPUsPerNode, req.GPUsPerTask,
		req.CoresPerGPU); n > countMost {
		return fmt.Errorf("a step has at most %d nodes, cores or GPUs", countMost)
	}
	if n := max(req.Memory, req.MemoryPerCore); n > memoryMost {
		return fmt.Errorf("a step has at most %d bytes of memory", int64(memoryMost))
	}
	if n := max(req.Wait, req.TimeLimit); n > timeMost {
		return fmt.Errorf("the times of a step are at most %d seconds", int64(timeMost))
	}
	if len(req.Key) > keyMost {
		return fmt.Errorf("the key of a request for a step has at most %d bytes", keyMost)
	}
	if err := checkParts(req); err != nil {
		return err
	}
	if len(req.Programs) == 0 {
		return errors.New("a step needs a program")
	}
	for _, p := range req.Programs {
		if len(p.Argv) == 0 || p.Argv[0] == "" {
			return errors.New("a program of a step needs a name")
		}
	}
	if max(req.Tasks, req.TasksPerNode) > jobspec.MaxProcesses {
		return fmt.Errorf("a step has at most %d tasks", jobspec.MaxProcesses)
	}
	for _, v := range req.Env {
		if name, _, ok := strings.Cut(v, "="); !ok || name == "" || strings.ContainsRune(v, 0) {
			return fmt.Errorf("variable %q is not NAME=VALUE", v)
		}
	}
	return nil
}

// checkParts refuses further parts that repeat a group, or set what holds for the whole step.
func checkParts(req *api.StepRequest) error {
	groups := map[int]bool{req.Group: true}
	for i := range req.More {
		r := &req.More[i]
		if r.Name != "" || len(r.More) > 0 || r.Overlap || r.NoWait || r.Terminal != nil || r.Stdin != "" || r.KillOnBad ||
			r.Key != "" || r.Acks || r.Losses || r.EndsJob || r.Wait != 0 || r.TimeLimit != 0 {
			return fmt.Errorf("the part of a step in group %d has settings that belong to the whole step", r.Group)
		}
		if groups[r.Group] {
			return fmt.Errorf("a step can have only one part in each group, but has two in group %d", r.Group)
		}
		groups[r.Group] = true
		if err := check(r); err != nil {
			return fmt.Errorf("in group %d: %w", r.Group, err)
		}
	}
	return nil
}

// nameOf returns the name of a step: as requested, or the first program's.
func nameOf(req *api.StepRequest) string {
	name := req.Name
	if name == "" {
		name = filepath.Base(req.Programs[0].Argv[0])
	}
	return cut(name)
}

// cut shortens a text to the length that a row may have, without a broken character at its end.
func cut(text string) string {
	if len(text) > model.MaxStepText {
		text = strings.ToValidUTF8(text[:model.MaxStepText], "")
	}
	return text
}
