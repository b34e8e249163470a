package queries

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/rota-hpc/rota/cmd/rota/slurm/fields"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
)

// ofAccount returns the text of a limit of an account; that of a user is under another name.
func ofAccount(field func(*cluster.Limit) *int64) func(association) string {
	return func(a association) string { return numberIf(a.user == "", a.limit, field) }
}

// ofUser returns the text of a limit of a user in an account.
func ofUser(field func(*cluster.Limit) *int64) func(association) string {
	return func(a association) string { return numberIf(a.user != "", a.limit, field) }
}

func numberIf(shown bool, l *cluster.Limit, field func(*cluster.Limit) *int64) string {
	if !shown || l == nil || field(l) == nil {
		return ""
	}
	return strconv.FormatInt(*field(l), 10)
}

// trackable returns the limits on resources that jobs hold at once, as Slurm writes them.
func (a *association) trackable() string {
	l := a.limit
	if l == nil {
		return ""
	}
	var parts []string
	if l.Cores != nil {
		parts = append(parts, fmt.Sprintf("cpu=%d", *l.Cores))
	}
	if l.GPUs != nil {
		parts = append(parts, fmt.Sprintf("gres/gpu=%d", *l.GPUs/model.WholeGPU))
	}
	if l.Memory != nil {
		parts = append(parts, fmt.Sprintf("mem=%dM", model.InMiB(int64(*l.Memory))))
	}
	if l.Nodes != nil {
		parts = append(parts, fmt.Sprintf("node=%d", *l.Nodes))
	}
	return strings.Join(parts, ",")
}

// runMinutes returns the limit on GPU minutes of running jobs.
func (a *association) runMinutes() string {
	if a.limit == nil || a.limit.GPUMinutes == nil {
		return ""
	}
	return fmt.Sprintf("gres/gpu=%d", *a.limit.GPUMinutes)
}

// wall returns the limit on the time limit of each job.
func (a *association) wall() string {
	if a.limit == nil || a.limit.MaxTime == 0 {
		return ""
	}
	return fields.Clock(a.limit.MaxTime)
}
