package main

import (
	"fmt"
	"runtime"
	"sort"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/controld/api"
)

// fileCommands are those that look at job files.
func (w *world) fileCommands() []*cli.Command {
	return inCategory("Job files", []*cli.Command{
		{Name: "validate", Usage: "check job files without a cluster", ArgsUsage: "FILE.hcl... [OPTIONS]", Action: w.validate,
			Description: "With -o json the canonical form of each job is printed, or what is wrong with the file.",
			Flags:       with(varFlags(), commonFlags())},
		{Name: "plan", Usage: "say whether and where a job would start now", ArgsUsage: "FILE.hcl|- [OPTIONS]", Action: w.plan,
			Description: "Exit code 0 when it would start now, 6 when it would wait.",
			Flags:       with(overrideFlags(), with(varFlags(), commonFlags()))},
	})
}

// otherCommands are the rest.
func (w *world) otherCommands() []*cli.Command {
	commands := inCategory("Other", []*cli.Command{
		w.devCommand(),
		{Name: "completion", Usage: "print completions for a shell", ArgsUsage: "bash|zsh|fish", Action: w.completion,
			Description: "bash: eval \"$(rota completion bash)\"    zsh: the same with zsh    fish: rota completion fish | source"},
		{Name: "version", Usage: "print the version", Action: w.version, Flags: commonFlags()},
		{Name: "help", Aliases: []string{"h"}, Usage: "list the commands, or tell more of one", ArgsUsage: "[COMMAND]", Action: w.help},
	})
	return append(commands, &cli.Command{Name: "complete", Hidden: true, Usage: "print what may follow, for the shells' completions",
		Action: w.complete, Flags: commonFlags()})
}

func (w *world) version(c *cli.Context) error {
	asJSON, err := w.plainOrJSON(c)
	if err != nil {
		return err
	}
	if asJSON {
		return printJSON(w.stdout, map[string]string{"version": version, "go": runtime.Version()})
	}
	_, err = fmt.Fprintf(w.stdout, "rota %s\n", version)
	return err
}

// validate checks every file, and fails when any is wrong.
func (w *world) validate(c *cli.Context) error {
	asJSON, err := w.plainOrJSON(c)
	if err != nil {
		return err
	}
	if c.Args().Len() == 0 {
		return usagef("which job file? rota validate %s", c.Command.ArgsUsage)
	}
	bad := 0
	for _, name := range c.Args().Slice() {
		if err := w.validateOne(name, c, asJSON); err != nil {
			bad++
			w.printError(asJSON, err)
		}
	}
	if bad > 0 {
		return &codeError{code: exitUsage}
	}
	return nil
}

func (w *world) validateOne(name string, c *cli.Context, asJSON bool) error {
	job, err := w.readJob(name, c)
	if err != nil {
		return err
	}
	if asJSON {
		return printJSON(w.stdout, job)
	}
	_, err = fmt.Fprintf(w.stdout, "%s: ok, job %s\n", name, job.Name)
	return err
}

// completion prints a shell's completion script. Commands and options are fixed in it; job ids are asked of the cluster.
func (w *world) completion(c *cli.Context) error {
	scripts := map[string]string{"bash": bashCompletion, "zsh": zshCompletion, "fish": fishCompletion}
	script, ok := scripts[c.Args().First()]
	if !ok || c.Args().Len() != 1 {
		return usagef("which shell? rota completion bash, zsh, or fish")
	}
	_, err := fmt.Fprint(w.stdout, strings.NewReplacer("@COMMANDS@", commandWords(c.App), "@OPTIONS@", optionCases(c.App)).Replace(script))
	return err
}

func commandWords(app *cli.App) string {
	var names []string
	for _, c := range app.Commands {
		if !c.Hidden {
			names = append(names, c.Name)
		}
	}
	return strings.Join(names, " ")
}

// optionCases is the body of a shell's case statement, from command to its long options.
func optionCases(app *cli.App) string {
	var b strings.Builder
	for _, c := range app.Commands {
		if words := optionWords(c); !c.Hidden && words != "" {
			fmt.Fprintf(&b, "    %s) echo \"%s\" ;;\n", c.Name, words)
		}
	}
	return b.String()
}

func optionWords(c *cli.Command) string {
	var words []string
	for _, f := range c.Flags {
		words = append(words, dashed(f.Names()[0]))
	}
	sort.Strings(words)
	return strings.Join(words, " ")
}

// complete prints job ids for the completions, and nothing when there is no cluster.
func (w *world) complete(c *cli.Context) error {
	client, err := w.dial(c)
	if err != nil {
		return nil
	}
	ctx, cancel := contextOf(c)
	defer cancel()
	list, _, err := client.Jobs(ctx, api.JobFilter{Limit: completionLimit}, api.Read{})
	if err != nil {
		return nil
	}
	for i := range list.Items {
		fmt.Fprintln(w.stdout, strconv.FormatInt(int64(list.Items[i].ID), 10))
	}
	return nil
}
