package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/jobspec"
)

// clockText writes a duration as Slurm does: M:SS, H:MM:SS, or D-HH:MM:SS.
func clockText(s jobspec.Seconds) string {
	if s < 0 {
		s = 0
	}
	days, hours, minutes, seconds := s/86400, s/3600%24, s/60%60, s%60
	switch {
	case days > 0:
		return fmt.Sprintf("%d-%02d:%02d:%02d", days, hours, minutes, seconds)
	case hours > 0:
		return fmt.Sprintf("%d:%02d:%02d", hours, minutes, seconds)
	}
	return fmt.Sprintf("%d:%02d", minutes, seconds)
}

// limitText is clockText of a time limit, where none is a word.
func limitText(s jobspec.Seconds) string {
	if s == 0 {
		return "none"
	}
	return clockText(s)
}

// sizeText writes a size in the largest binary unit that keeps it below 1,024, with one decimal when that matters.
func sizeText(b jobspec.Bytes) string {
	units := []string{"B", "K", "M", "G", "T", "P"}
	value, unit := float64(b), 0
	for value >= 1024 && unit < len(units)-1 {
		value /= 1024
		unit++
	}
	if unit == 0 || value >= 10 || value == float64(int64(value)) {
		return fmt.Sprintf("%.0f%s", value, units[unit])
	}
	return fmt.Sprintf("%.1f%s", value, units[unit])
}

// hoursText writes GPU seconds as GPU hours.
func hoursText(seconds int64) string { return fmt.Sprintf("%.2f", float64(seconds)/3600) }

// stamp writes a time to the second, local unless utc.
func stamp(t *api.Time, utc bool) string {
	if t == nil || t.IsZero() {
		return ""
	}
	if utc {
		return t.UTC().Format("2006-01-02T15:04:05Z")
	}
	return t.Local().Format("2006-01-02T15:04:05")
}

// exitText writes an exit code and signal as Slurm does, code:signal.
func exitText(j *api.Job) string { return fmt.Sprintf("%d:%d", j.ExitCode, j.Signal) }

// parseLimit reads --time: as in job files (90s, 1h30m, 2d, D-HH:MM:SS), or the shorter forms that sbatch takes (minutes, M:S, D-H,
// D-H:M).
func parseLimit(text string) (jobspec.Seconds, error) {
	seconds, err := jobspec.ParseSeconds(text)
	if err != nil {
		short, ok := slurmTime(text)
		if !ok {
			return 0, &usageError{text: "--time " + err.Error()}
		}
		seconds = short
	}
	if seconds < 1 || seconds > jobspec.MaxDuration {
		return 0, usagef("--time %s is out of bounds: from 1s to 3650d", text)
	}
	return seconds, nil
}

// leadingInt splits off the digits at the start; more than nine are refused.
func leadingInt(text string) (n int64, rest string, ok bool) {
	end := strings.IndexFunc(text, func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		end = len(text)
	}
	if end == 0 || end > 9 {
		return 0, "", false
	}
	n, err := strconv.ParseInt(text[:end], 10, 64)
	return n, text[end:], err == nil
}

// slurmTime reads the forms of sbatch --time. A bare number is minutes.
func slurmTime(text string) (jobspec.Seconds, bool) {
	days, clock, hasDays := strings.Cut(text, "-")
	if !hasDays {
		days, clock = "0", text
	}
	parts := strings.Split(clock, ":")
	if len(parts) > 3 {
		return 0, false
	}
	numbers := make([]jobspec.Seconds, 0, 4)
	for _, p := range append([]string{days}, parts...) {
		n, rest, ok := leadingInt(p)
		if !ok || rest != "" {
			return 0, false
		}
		numbers = append(numbers, jobspec.Seconds(n))
	}
	weights := [][]jobspec.Seconds{{60}, {60, 1}, {3600, 60, 1}}[len(parts)-1]
	if hasDays {
		weights = []jobspec.Seconds{3600, 60, 1}
	}
	total := numbers[0] * 86400
	for i, n := range numbers[1:] {
		total += n * weights[i]
	}
	return total, true
}

// parseSize reads --mem: as in job files (64GiB, 512M, all binary); a bare number is MiB, as sbatch has it.
func parseSize(text string) (jobspec.Bytes, error) {
	if n, rest, ok := leadingInt(text); ok && rest == "" {
		text = strconv.FormatInt(n, 10) + "MiB"
	}
	size, err := jobspec.ParseSize(text)
	if err != nil {
		return 0, &usageError{text: "--mem " + err.Error()}
	}
	return size, nil
}

// parseWhen reads a point in time for -S and -E: RFC 3339, a local date or date and time, today, yesterday, or now-7days.
func parseWhen(text string, now time.Time, utc bool) (time.Time, error) {
	zone := time.Local
	if utc {
		zone = time.UTC
	}
	local := now.In(zone)
	midnight := time.Date(local.Year(), local.Month(), local.Day(), 0, 0, 0, 0, zone)
	switch text {
	case "now":
		return now, nil
	case "today":
		return midnight, nil
	case "yesterday":
		return midnight.AddDate(0, 0, -1), nil
	}
	if back, ok := strings.CutPrefix(text, "now-"); ok {
		if d, ok := backDuration(back); ok {
			return now.Add(-d), nil
		}
	}
	if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return t, nil
	}
	for _, layout := range []string{"15:04", "15:04:05"} { // of today
		if t, err := time.Parse(layout, text); err == nil {
			return time.Date(local.Year(), local.Month(), local.Day(), t.Hour(), t.Minute(), t.Second(), 0, zone), nil
		}
	}
	for _, layout := range []string{"2006-01-02", "2006-01-02T15:04", "2006-01-02T15:04:05", "2006-01-02 15:04:05"} {
		if t, err := time.ParseInLocation(layout, text, zone); err == nil {
			return t, nil
		}
	}
	return time.Time{}, usagef("%q is not a time: write 2026-11-21, 2026-11-21T08:00, 08:00, today, yesterday, or now-7days", text)
}

// backDuration reads the 7days of now-7days.
func backDuration(text string) (time.Duration, bool) {
	n, unit, ok := leadingInt(text)
	if !ok {
		return 0, false
	}
	units := map[string]time.Duration{"s": time.Second, "second": time.Second, "m": time.Minute, "minute": time.Minute, "h": time.Hour,
		"hour": time.Hour, "d": 24 * time.Hour, "day": 24 * time.Hour, "week": 7 * 24 * time.Hour, "w": 7 * 24 * time.Hour}
	if len(unit) > 1 {
		unit = strings.TrimSuffix(unit, "s")
	}
	d, ok := units[unit]
	return time.Duration(n) * d, ok
}
