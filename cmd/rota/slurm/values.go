package slurm

import (
	"fmt"
	"time"

	"github.com/rota-hpc/rota/cmd/rota/show"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// waits reports whether a row is of a job, or of tasks, that has not begun. That of an array stands
// for its pending tasks.
func waits(j *api.Job) bool { return j.Code == model.Pending || j.Array.Indices != "" }

func longState(j *api.Job) string {
	if waits(j) {
		return "PENDING"
	}
	return j.State
}

func shortState(j *api.Job) string {
	if waits(j) {
		return string(model.Pending)
	}
	return string(j.Code)
}

// reasonCode is Slurm's one word for why a job waits, or ended.
func reasonCode(j *api.Job) string {
	if j.Reason.Code == "" {
		return "None"
	}
	return j.Reason.Code
}

// clock writes a duration as scontrol does: [D-]HH:MM:SS.
func clock(s jobspec.Seconds) string {
	days, rest := s/86400, s%86400
	text := fmt.Sprintf("%02d:%02d:%02d", rest/3600, rest/60%60, rest%60)
	if days > 0 {
		return fmt.Sprintf("%d-%s", days, text)
	}
	return text
}

func limit(s jobspec.Seconds) string {
	if s == 0 {
		return "UNLIMITED"
	}
	return clock(s)
}

// shortLimit is limit as squeue has it: [D-][H:]M:SS.
func shortLimit(s jobspec.Seconds) string {
	if s == 0 {
		return "UNLIMITED"
	}
	return show.Clock(s)
}

// left is how much of its limit a job has.
func left(j *api.Job) string {
	if j.TimeLimit == 0 {
		return "UNLIMITED"
	}
	return show.Clock(max(j.TimeLimit-runTime(j), 0))
}

func runTime(j *api.Job) jobspec.Seconds {
	if waits(j) {
		return 0
	}
	return j.Elapsed
}

// when writes a time as Slurm does.
func when(t *api.Time) string {
	if text := show.Time(t, false); text != "" {
		return text
	}
	return "N/A"
}

// endOf is when a job ended, or will have to.
func endOf(j *api.Job) string {
	if j.Ended == nil && j.Started != nil && j.TimeLimit > 0 && !waits(j) {
		return when(&api.Time{Time: j.Started.Add(time.Duration(j.TimeLimit) * time.Second)})
	}
	return when(j.Ended)
}

func orNull(text string) string {
	if text == "" {
		return "(null)"
	}
	return text
}

// perNode is a job's amount on each of its nodes.
func perNode[N ~int | ~int64](n N, j *api.Job) N { return n / N(max(show.NodeCount(j), 1)) }

// memory writes a size as Slurm does: the largest unit that leaves a whole number.
func memory(b jobspec.Bytes) string {
	n, units := int64(b/jobspec.MiB), "MGT"
	for n >= 1024 && n%1024 == 0 && len(units) > 1 {
		n, units = n/1024, units[1:]
	}
	return fmt.Sprintf("%d%s", n, units[:1])
}
