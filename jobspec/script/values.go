package script

import (
	"strconv"
	"strings"

	"github.com/rota-hpc/rota/jobspec"
)

// timeLimit reads the forms of Slurm: minutes, M:S, H:M:S, D-H, D-H:M and D-H:M:S, also with units as in job files. A limit of nothing is
// none at all, as in Slurm. It may be longer than any job's.
func timeLimit(text string) (limit jobspec.Seconds, unlimited, ok bool) {
	switch strings.ToUpper(text) {
	case "UNLIMITED", "INFINITE", "-1":
		return 0, true, true
	}
	if strings.ContainsAny(text, "smhdw") {
		seconds, err := jobspec.ParseSeconds(text)
		return seconds, false, err == nil && seconds > 0
	}
	seconds, ok := clockTime(text)
	return seconds, seconds == 0, ok
}

// clockTime reads numbers with the marks of Slurm between them.
func clockTime(text string) (jobspec.Seconds, bool) {
	days, clock, hasDays := strings.Cut(text, "-")
	if !hasDays {
		days, clock = "0", text
	}
	parts := strings.Split(clock, ":")
	if len(parts) > 3 {
		return 0, false
	}
	weights := [][]jobspec.Seconds{{60}, {60, 1}, {3600, 60, 1}}[len(parts)-1]
	if hasDays {
		weights = []jobspec.Seconds{3600, 60, 1}
	}
	total, ok := digits(days, 86400)
	for i, part := range parts {
		n, good := digits(part, weights[i])
		total, ok = total+n, ok && good
	}
	return total, ok
}

// digits reads at most nine digits.
func digits(text string, weight jobspec.Seconds) (jobspec.Seconds, bool) {
	if text == "" || len(text) > 9 || strings.Trim(text, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.Atoi(text)
	return jobspec.Seconds(n) * weight, err == nil
}
