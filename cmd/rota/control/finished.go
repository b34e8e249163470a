package control

import (
	"fmt"
	"os"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/exit"
)

// progressFileEnv names the variable with the path of the job's progress file.
const progressFileEnv = "ROTA_PROGRESS_FILE"

// sayFinished adds the line to the job's progress file that says that its program is finished.
func sayFinished(_ *command.Env, c *cli.Context) error {
	if c.Args().Present() {
		return exit.Usagef("rota finished takes no arguments: it reports for the job in which it runs")
	}
	path := os.Getenv(progressFileEnv)
	if path == "" {
		return exit.Usagef("rota finished works only in jobs: $%s is not set here", progressFileEnv)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return fmt.Errorf("the progress file of the job: %w", err)
	}
	_, err = f.WriteString("{\"finished\":true}\n")
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return fmt.Errorf("the progress file of the job: %w", err)
	}
	return nil
}
