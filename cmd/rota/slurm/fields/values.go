package fields

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/rota-hpc/rota/cmd/rota/show"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/jobspec"
)

// reasonCode is Slurm's one-word reason why a job waits or ended.
func reasonCode(j *api.Job) string {
	if j.Reason.Code == "" {
		return "None"
	}
	return j.Reason.Code
}

// Clock formats a duration as scontrol does: [D-]HH:MM:SS.
func Clock(s jobspec.Seconds) string {
	days, rest := s/86400, s%86400
	text := fmt.Sprintf("%02d:%02d:%02d", rest/3600, rest/60%60, rest%60)
	if days > 0 {
		return fmt.Sprintf("%d-%s", days, text)
	}
	return text
}

// CPUClock formats processor time as sacct does; values below an hour have thousandths of a second.
func CPUClock(s float64) string {
	ms := int64(math.Round(s * 1000)) // the float 1.001 is slightly below 1,001 thousandths, so round
	if ms >= 3_600_000 || ms == 0 {
		return Clock(jobspec.Seconds(ms / 1000))
	}
	return fmt.Sprintf("%02d:%02d.%03d", ms/60_000, ms/1000%60, ms%1000)
}

// limit formats a time limit as scontrol does.
func limit(s jobspec.Seconds) string {
	if s == 0 {
		return "UNLIMITED"
	}
	return Clock(s)
}

// shortLimit formats a time limit as squeue does: [D-][H:]M:SS.
func shortLimit(s jobspec.Seconds) string {
	if s == 0 {
		return "UNLIMITED"
	}
	return show.Clock(s)
}

func orNull(text string) string {
	if text == "" {
		return "(null)"
	}
	return text
}

// perNode returns the amount of a resource that a job has on each node.
func perNode[N ~int | ~int64](n N, j *api.Job) N { return n / N(max(show.NodeCount(j), 1)) }

// memory formats a size as Slurm does: the largest unit that gives a whole number.
func memory(b jobspec.Bytes) string {
	n, unit := int64(b/jobspec.MiB), Units[1:]
	for n >= 1024 && n%1024 == 0 && len(unit) > 1 {
		n, unit = n/1024, unit[1:]
	}
	return fmt.Sprintf("%d%s", n, unit[:1])
}

// tresCount parses an amount of a job's resource list; memory is in MiB.
func tresCount(text string) int64 {
	digits := strings.TrimRight(text, Units)
	n, _ := strconv.ParseInt(digits, 10, 64)
	for range max(strings.Index(Units, text[len(digits):]), 1) - 1 {
		n *= 1024
	}
	return n
}

// stampOf returns a time in seconds since 1970, or 0 for an unset time.
func stampOf(t *api.Time) int64 {
	if t == nil || t.IsZero() {
		return 0
	}
	return t.Unix()
}
