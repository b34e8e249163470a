package control

import (
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
)

// signalJobs sends a signal to the processes of jobs.
func signalJobs(env *command.Env, c *cli.Context) error {
	session, refs, err := env.ConnectForJobs(c)
	if err != nil {
		return err
	}
	if !c.IsSet("signal") {
		return exit.Usagef("--signal is required: rota signal %s", c.Command.ArgsUsage)
	}
	req := api.SignalRequest{Signal: command.SignalName(c.String("signal")), To: c.String("to")}
	for _, ref := range refs {
		if _, step := stepOf(ref); step >= 0 && req.To != "" {
			return exit.Usagef("--to is for jobs that run a script, but %s is a step", ref)
		}
	}
	return session.ForEach(refs, "job", "signalled", func(ref string) (*api.ControlResponse, error) {
		if job, step := stepOf(ref); step >= 0 {
			id, _ := strconv.ParseInt(job, 10, 64) // of a task of an array it is not known
			return &api.ControlResponse{Items: []api.ControlItem{{ID: model.JobID(id)}}},
				session.SignalStep(c.Context, job, step, req.Signal)
		}
		return session.Signal(c.Context, ref, req)
	})
}

// stepOf splits 7.0 into a job and a step number, -1 if there is no step number. No name of a group
// is a number.
func stepOf(ref string) (job string, step int) {
	job, number, found := strings.Cut(ref, ".")
	if n, err := strconv.ParseUint(number, 10, 31); found && err == nil {
		return job, int(n)
	}
	return ref, -1
}
