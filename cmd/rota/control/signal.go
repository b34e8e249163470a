package control

import (
	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/controld/api"
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
	return session.ForEach(refs, "job", "signalled", func(ref string) (*api.ControlResponse, error) {
		return session.Signal(c.Context, ref, req)
	})
}
