// Command rota-init is the first process of every container. It starts the ranks of the worker,
// passes signals on to their programs, and reaps orphans. If one rank fails, it stops the others.
// It reports to the shim how the worker ended.
//
// A signal goes to each rank's process and, if that is a shell, also to what the shell runs. The
// helpers of a program, such as the workers of a data loader, do not get it. A rank whose shell
// dies of such a signal lives on until the programs that were signalled with it have ended, and
// takes an exit code of theirs other than 0: so `python train.py` in a script can save a checkpoint
// and exit with 85. After an exit 0 the rank stays killed, because the rest of its script never ran.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/noded/oci/launch"
)

func main() {
	if text := os.Getenv(launch.ExecEnv); text != "" && len(os.Args) == 2 && os.Args[1] == "exec" {
		os.Exit(execute(launch.PlanFile, text))
	}
	if len(os.Args) > 4 && os.Args[1] == launch.TaskArgument {
		os.Exit(becomeTask(os.Args[2], os.Args[3], os.Args[4:]))
	}
	if len(os.Args) > 1 {
		os.Exit(answerArguments(os.Args[1:], os.Stdout, os.Stderr))
	}
	os.Exit(run(launch.PlanFile))
}

const usage = `rota-init is the first process of every container of a Rota job. It starts the job's processes as
` + launch.PlanFile + ` says, passes signals on to them, and reports to the shim how they ended. It takes no
arguments and is not meant to be started by hand.
`

// answerArguments is for a user that starts this program by hand. It returns the exit code.
func answerArguments(args []string, stdout, stderr io.Writer) int {
	if len(args) == 1 && (args[0] == "--help" || args[0] == "-h" || args[0] == "help") {
		fmt.Fprint(stdout, usage)
		return 0
	}
	fmt.Fprintf(stderr, "rota-init: argument %q is not expected: it takes none; see rota-init --help\n", args[0])
	return 2
}

func run(path string) int {
	plan, err := read(path)
	if err != nil {
		fmt.Fprintf(os.Stderr, "rota-init: %v\n", err)
		return 125
	}
	if err := readSecrets(plan); err != nil {
		fmt.Fprintf(os.Stderr, "rota-init: %v\n", err)
		return 125
	}
	c := openChannel()
	result := newWorker(plan, c).run()
	c.send(result)
	return severity(result)
}

func read(path string) (*launch.Plan, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read launch plan: %w", err)
	}
	var p launch.Plan
	if err := json.Unmarshal(b, &p); err != nil {
		return nil, fmt.Errorf("launch plan is damaged: %w", err)
	}
	if len(p.Ranks) == 0 && !p.Hold {
		return nil, fmt.Errorf("launch plan has no ranks")
	}
	// ranks run as the same user and must not trace this process
	return &p, unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
}

// readSecrets adds the variables whose values are in files to the environment of the ranks. A line
// end at the end of a file, which editors add, is not part of the secret.
func readSecrets(p *launch.Plan) error {
	for _, s := range p.Secrets {
		value, err := os.ReadFile(s.File)
		if err != nil {
			return fmt.Errorf("read the secret for %s: %w", s.Env, err)
		}
		p.Env = append(p.Env, s.Env+"="+strings.TrimSuffix(strings.TrimSuffix(string(value), "\n"), "\r"))
	}
	return nil
}
