package command

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/jobspec/script/slurm"
)

// ParseLimit reads --time as in job files (90s, 1h30m, 2d, D-HH:MM:SS) or in the shorter forms of
// sbatch (minutes, M:S, D-H, D-H:M).
func ParseLimit(text string) (jobspec.Seconds, error) {
	seconds, err := jobspec.ParseSeconds(text)
	if err != nil {
		var ok bool
		if seconds, _, ok = slurm.TimeLimit(text); !ok {
			return 0, exit.Usagef("--time %v", err)
		}
	}
	if seconds < 1 || seconds > jobspec.MaxDuration {
		return 0, exit.Usagef("--time %s is out of range: 1s to 3650d", text)
	}
	return seconds, nil
}

// LeadingInt splits off the digits at the start of text, at most nine.
func LeadingInt(text string) (n int64, rest string, ok bool) {
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

// ParseSize reads --mem as in job files (64GiB, 512M, all binary). As for sbatch, a number alone is
// in MiB.
func ParseSize(text string) (jobspec.Bytes, error) {
	if n, rest, ok := LeadingInt(text); ok && rest == "" {
		text = strconv.FormatInt(n, 10) + "MiB"
	}
	size, err := jobspec.ParseSize(text)
	if err != nil {
		return 0, exit.Usagef("--mem %v", err)
	}
	return size, nil
}

// ParseWhen reads a point in time for --since and --until: RFC 3339, a local date with or without
// time, today, yesterday, or now-7days.
func ParseWhen(text string, now time.Time, utc bool) (time.Time, error) {
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
	return time.Time{}, exit.Usagef("%q is not a time: write 2026-11-21, 2026-11-21T08:00, 08:00, today, yesterday, "+
		"or now-7days", text)
}

// backDuration reads the part 7days of now-7days.
func backDuration(text string) (time.Duration, bool) {
	n, unit, ok := LeadingInt(text)
	if !ok {
		return 0, false
	}
	units := map[string]time.Duration{"s": time.Second, "second": time.Second, "m": time.Minute, "minute": time.Minute,
		"h":    time.Hour,
		"hour": time.Hour, "d": 24 * time.Hour, "day": 24 * time.Hour, "week": 7 * 24 * time.Hour, "w": 7 * 24 * time.Hour}
	if len(unit) > 2 { // days, but not ms
		unit = strings.TrimSuffix(unit, "s")
	}
	d, ok := units[unit]
	return time.Duration(n) * d, ok
}

// AbsolutePath returns the absolute path of a directory, "" for "".
func AbsolutePath(dir string) (string, error) {
	if dir == "" {
		return "", nil
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("find %s: %w", dir, err)
	}
	return abs, nil
}

// Assignments reads NAME=VALUE pairs, the values of flag.
func Assignments(flag string, pairs []string) (map[string]string, error) {
	var out map[string]string
	for _, pair := range pairs {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return nil, exit.Usagef("%s %s: write %s NAME=VALUE", flag, pair, flag)
		}
		if out == nil {
			out = make(map[string]string)
		}
		out[name] = value
	}
	return out, nil
}
