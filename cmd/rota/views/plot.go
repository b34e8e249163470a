package views

import (
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/show"
	"github.com/rota-hpc/rota/cmd/rota/table"
	"github.com/rota-hpc/rota/controld/api"
)

// noMetric explains how a job can report metrics.
const noMetric = `no metric reported yet: a job reports metrics by lines such as {"step":10,"metrics":{"loss":0.5}} in
$ROTA_PROGRESS_FILE, or in its output with progress { pattern }. Only the leading controller keeps the
curves, in memory, so they start again when another controller takes over`

// showPlot draws the metric of a job.
func showPlot(env *command.Env, session *command.Session, c *cli.Context, ref string) error {
	series, answer, err := session.SeriesBy(c.Context, ref, c.String("metric"))
	if err != nil {
		return err
	}
	env.WarnStale(answer)
	if len(series.Points) == 0 && c.IsSet("metric") && len(series.Metrics) > 0 {
		return &exit.CodeError{Code: exit.NotFound, Text: fmt.Sprintf("job %s has not reported metric %q, only %s",
			ref, series.Metric, show.Clean(strings.Join(series.Metrics, ", ")))}
	}
	if session.AsJSON {
		return table.PrintJSON(env.Stdout, series)
	}
	job, _, err := session.JobBy(c.Context, ref, api.Read{})
	if err != nil {
		return err
	}
	fmt.Fprintf(env.Stdout, "Job %s  %s  %s\n", show.JobName(job), show.Clean(job.Name), plotState(job))
	if len(series.Points) == 0 {
		_, err := fmt.Fprintln(env.Stdout, nothingToPlot(series))
		return err
	}
	fmt.Fprintln(env.Stdout, plotTitle(series))
	p := show.Plot{Width: env.Width(env.Stdout), ASCII: !env.IsUTF8()}
	return p.Draw(env.Stdout, series.Metric, series.Points)
}

// plotState describes the job in the title of its curve: the state, and the progress of its
// training.
func plotState(j *api.Job) string {
	if j.ProgressClass != "" {
		return string(j.Code) + "  " + j.ProgressClass
	}
	return string(j.Code)
}

// nothingToPlot says why a job has no curve.
func nothingToPlot(s *api.Series) string {
	if len(s.Metrics) > 0 {
		return fmt.Sprintf("no %s reported yet; --metric draws %s", show.Clean(s.Metric),
			show.Clean(strings.Join(s.Metrics, ", ")))
	}
	return noMetric
}

// plotTitle writes the newest and the best value of a series, and the names of the other metrics.
func plotTitle(s *api.Series) string {
	last := s.Points[len(s.Points)-1]
	text := fmt.Sprintf("%s %.6g at step %d", show.Clean(s.Metric), last.Value, last.Step)
	if s.Total > 0 {
		text += fmt.Sprintf(" of %d", s.Total)
	}
	if s.Goal != "" {
		text += fmt.Sprintf(", %s is best", s.Goal)
	}
	others := slices.DeleteFunc(slices.Clone(s.Metrics), func(name string) bool { return name == s.Metric })
	if len(others) > 0 {
		text += "; --metric draws " + show.Clean(strings.Join(others, ", "))
	}
	return text
}
