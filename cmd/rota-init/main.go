// Command rota-init is the first process of every container. It starts the ranks of the worker, passes signals on to the programs
// they run, reaps orphans, stops the other ranks when one fails, and tells the shim how the worker ended.
//
// A signal goes to each rank's process and, where that is a shell, also to what the shell runs, but never to the helpers of a
// program (such as the workers of a data loader). A rank whose shell dies of such a signal lives on until the programs that were
// signalled with it have ended, and takes their exit code: so `python train.py` in a script can save a checkpoint and exit with 85.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/noded/oci/launch"
)

func main() { os.Exit(run(launch.PlanFile)) }

func run(path string) int {
	plan, err := read(path)
	if err != nil {
		fmt.Fprintf(os.Stderr, "rota-init: %v\n", err)
		return 125
	}
	c := openChannel()
	result := newWorker(plan, c).run()
	if c.send(result) != nil || result.Signal == 0 {
		return result.Code
	}
	return 128 + result.Signal
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
	if len(p.Ranks) == 0 {
		return nil, fmt.Errorf("launch plan has no ranks")
	}
	return &p, unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) // ranks run as the same user and must not trace this process
}
