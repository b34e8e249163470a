package show

import (
	"fmt"

	"github.com/rota-hpc/rota/controld/api"
)

// Steering says what an operator has told the scheduler, and how that is ended.
func Steering(s api.SchedSetting, utc bool) string {
	text := fmt.Sprintf("%s was paused by %s at %s", s.What, Clean(s.By), Time(s.Since, utc))
	end := "rota sched resume " + s.What
	switch s.What {
	case "all":
		text = fmt.Sprintf("all scheduling was paused by %s at %s", Clean(s.By), Time(s.Since, utc))
		end = "rota sched resume"
	case "dry-run":
		text = fmt.Sprintf("a dry run was started by %s at %s: jobs that would be displaced are only recorded", Clean(s.By),
			Time(s.Since, utc))
		end = "rota sched dry-run off"
	}
	if s.Reason != "" {
		text += ", reason: " + Clean(s.Reason)
	}
	return fmt.Sprintf("%s (end it with %q)", text, end)
}

// Displacement says what a dry run has recorded.
func Displacement(d api.Displacement) string {
	text := fmt.Sprintf("job %d would have been asked to leave", d.Job)
	if d.Workers > 0 {
		text = fmt.Sprintf("job %d would have been asked to give up %s", d.Job, Count(d.Workers, "worker", "workers"))
	}
	if d.For != 0 {
		text += fmt.Sprintf(" for job %d", d.For)
	}
	return fmt.Sprintf("%s (%s, grace %d s, %d GPU s lost)", text, d.Cause, d.Grace, d.LostGPUSeconds)
}
