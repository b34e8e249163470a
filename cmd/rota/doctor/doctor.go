// Package doctor has the command rota doctor. It checks whether this machine has what Rota needs,
// finds unsafe settings, and says how to fix them.
//
// Each check is a method of inspection that returns findings. It asks the machine through [system],
// which tests replace. The checks that the node daemon also does are in noded/requirements.
package doctor

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/complete"
	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/table"
	"github.com/rota-hpc/rota/cmd/rota/terminal/progress"
)

// Places where packages put the configuration files.
const (
	controldFile = "/etc/rota/controld.hcl"
	nodedFile    = "/etc/rota/noded.hcl"
)

// Commands returns the commands of this package.
func Commands() []*command.Command {
	return command.InCategory("Operators", []*command.Command{{
		Name: "doctor", Usage: "check this machine for problems that concern Rota, and show how to solve them",
		ArgsUsage: "[OPTIONS]", Action: examine,
		Description: "The configuration files show whether this machine is a controller, a node or a login node; without " +
			"files it is\n" +
			"checked as a new machine. Nothing is changed. Run it as root to check everything.\n" +
			"Exit codes: 0 if all is well, 1 with warnings, 7 if something keeps Rota from working.",
		Flags: command.WithCommon(
			&cli.StringFlag{Name: "controld-config", Value: controldFile, Usage: "`FILE` that rota-controld reads"},
			&cli.StringFlag{Name: "noded-config", Value: nodedFile, Usage: "`FILE` that rota-noded reads"},
			command.Switch("quick", "do not measure the disk"),
			command.Switch("users", "print the users of this machine and a digest of them, for comparison with other "+
				"machines; check nothing"),
		),
		Values: map[string]command.Source{"controld-config": complete.Files, "noded-config": complete.Files},
	}})
}

// patience bounds each request and each external program of a check.
const patience = 5 * time.Second

// inspection is one run of the command.
type inspection struct {
	*system
	quick    bool
	settings settings
	found    []finding // set by readSettings
	cluster  cluster
	synced   time.Duration // the longest fsync of the controller's disk; 0: not measured

	planned, done atomic.Int64 // checks, for the line that shows the progress
}

// examine runs every check and prints what it found.
func examine(env *command.Env, c *cli.Context) error {
	if err := command.RefuseArguments(c); err != nil {
		return err
	}
	asJSON, err := env.PlainOrJSON(c)
	if err != nil {
		return err
	}
	in := &inspection{system: machine(), quick: c.Bool("quick")}
	if c.Bool("users") {
		return in.printUsers(c.Context, env, asJSON)
	}
	var paths [2]string
	for i, flag := range []string{"controld-config", "noded-config"} {
		if paths[i], err = filepath.Abs(c.String(flag)); err != nil {
			return err
		}
		if c.IsSet(flag) && !in.exists(paths[i]) {
			return exit.Usagef("--%s %s: no such file", flag, c.String(flag))
		}
	}
	in.readSettings(paths[0], paths[1])
	if err := in.ask(env, c); err != nil {
		return err
	}
	line := progress.Show(env.Stderr, progress.Task{What: "examining", Unit: "checks",
		Done: func() (int64, int64) { return in.done.Load(), in.planned.Load() }})
	r := in.report(c.Context)
	line.Stop()
	if asJSON {
		err = table.PrintJSON(env.Stdout, r)
	} else {
		err = r.write(env.Stdout, env.Screen())
	}
	if err != nil {
		return err
	}
	return exit.WithCode(r.Worst.exitCode())
}

// report runs the checks in the order of the output.
func (in *inspection) report(ctx context.Context) *report {
	groups := []struct {
		subject string
		checks  []func(context.Context) []finding
	}{
		{"system", []func(context.Context) []finding{in.kernel, in.cgroups, in.namespaces, in.seccomp, in.keyrings,
			in.criuProgram, in.security, in.swap, in.slurm}},
		{"programs", []func(context.Context) []finding{in.programs}},
		{"configuration", []func(context.Context) []finding{in.configuration, in.certificates}},
		{"directories", []func(context.Context) []finding{in.directories, in.space, in.fsync, in.sharedPaths}},
		{"gpus", []func(context.Context) []finding{in.gpus}},
		{"clock", []func(context.Context) []finding{in.synchronised, in.offsets}},
		{"network", []func(context.Context) []finding{in.hostName, in.ports, in.reachable, in.controllers,
			in.timeouts, in.generation, in.keptFolders}},
		{"users", []func(context.Context) []finding{in.users, in.userDirectories}},
	}
	for _, group := range groups {
		in.planned.Add(int64(len(group.checks)))
	}
	var found []finding
	for _, group := range groups {
		for _, check := range group.checks {
			of := check(ctx)
			in.done.Add(1)
			for _, f := range of {
				f.Subject = group.subject
				found = append(found, f)
			}
		}
	}
	host, err := in.hostname()
	if err != nil {
		host = "this machine"
	}
	return newReport(host, in.settings.roles(), found)
}

// Short forms that checks use to add findings.

func one(l level, check, fix, format string, args ...any) []finding {
	return []finding{{Check: check, Level: l, Text: fmt.Sprintf(format, args...), Fix: fix}}
}

func fine(check, format string, args ...any) []finding { return one(ok, check, "", format, args...) }

// forNode reports whether to run checks for nodes: this machine is a node, or has no role yet.
func (in *inspection) forNode() bool {
	return in.settings.node != nil && !in.settings.login() || len(in.settings.roles()) == 0
}

// forController is forNode for controllers.
func (in *inspection) forController() bool {
	return in.settings.controller != nil || len(in.settings.roles()) == 0
}

// unique returns a list sorted and without repetitions.
func unique(list []string) []string { return slices.Compact(slices.Sorted(slices.Values(list))) }
