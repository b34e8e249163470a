package show

import (
	"fmt"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/jobspec"
)

// Clock writes a duration as Slurm does: M:SS, H:MM:SS, or D-HH:MM:SS.
func Clock(s jobspec.Seconds) string {
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

// Limit is Clock for a time limit, where 0 means none.
func Limit(s jobspec.Seconds) string {
	if s == 0 {
		return "none"
	}
	return Clock(s)
}

// Size writes a size in the largest binary unit that keeps it below 1,024, with one decimal if it
// is below 10.
func Size(b jobspec.Bytes) string {
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

// Hours writes GPU seconds as GPU hours.
func Hours(seconds int64) string { return fmt.Sprintf("%.2f", float64(seconds)/3600) }

// Time writes a time to the second, in local time unless utc.
func Time(t *api.Time, utc bool) string {
	if t == nil || t.IsZero() {
		return ""
	}
	if utc {
		return t.UTC().Format("2006-01-02T15:04:05Z")
	}
	return t.Local().Format("2006-01-02T15:04:05")
}
