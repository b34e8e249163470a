package manual

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/exit"
)

const helpTail = `
"rota help COMMAND" describes a command. rota connects to --addr or ROTA_ADDR (http://host:port, unix:PATH, or a
comma-separated list). Without them it tries /run/rota/controld.sock and /run/rota/rota.sock, and then the "rota dev"
of the current directory, or of a directory above it.
Exit codes: 0 ok, 1 failed, 2 invalid usage or job file, 3 not found, 4 denied, 5 no controller reachable,
6 would not start now (plan), 7 something keeps Rota from working (doctor), 124 timed out. "run" and "wait" return
the job's own exit code.
`

// The purpose of rota, and the form of a command line.
const (
	purpose  = "submit and watch jobs on a deep-learning GPU cluster"
	synopsis = "COMMAND [OPTIONS] [ARGUMENTS]"
)

// showHelp lists the commands, or describes one.
func showHelp(env *command.Env, c *cli.Context, commands []*command.Command) error {
	if c.Args().Len() == 0 {
		return printHelp(env.Stdout, commands)
	}
	if c.Args().Len() > 1 {
		return exit.Usagef("rota help describes one command: rota help %s", c.Command.ArgsUsage)
	}
	name := c.Args().First()
	found := command.FindCommand(commands, name)
	if found == nil {
		return command.UnknownCommand(name, commands)
	}
	return printCommandHelp(env.Stdout, found)
}

func printHelp(out io.Writer, commands []*command.Command) error {
	b := bufio.NewWriter(out)
	fmt.Fprintf(b, "rota: %s\n\nUsage: rota %s\n", purpose, synopsis)
	category := ""
	for _, c := range commands {
		if c.Hidden {
			continue
		}
		if c.Category != category {
			category = c.Category
			fmt.Fprintf(b, "\n%s:\n", category)
		}
		fmt.Fprintf(b, "  %-11s %s\n", c.Name, c.Usage)
	}
	fmt.Fprint(b, helpTail)
	return b.Flush()
}

func printCommandHelp(out io.Writer, c *command.Command) error {
	b := bufio.NewWriter(out)
	fmt.Fprintf(b, "rota %s: %s\n\nUsage: rota %s\n", c.Name, c.Usage, strings.TrimSpace(c.Name+" "+c.ArgsUsage))
	if c.Description != "" {
		fmt.Fprintf(b, "\n%s\n", c.Description)
	}
	if len(c.Flags) > 0 {
		fmt.Fprint(b, "\nOptions:\n")
	}
	for _, f := range c.Flags {
		if doc, ok := f.(cli.DocGenerationFlag); ok && command.Visible(f) {
			printFlagHelp(b, f, doc)
		}
	}
	return b.Flush()
}

// dashedNames lists the names of a flag.
func dashedNames(f cli.Flag) string {
	var names []string
	for _, n := range f.Names() {
		names = append(names, command.Dashed(n))
	}
	return strings.Join(names, ", ")
}

// flagUsage returns the description of a flag with its default, and the name of its value, which is
// in backquotes.
func flagUsage(doc cli.DocGenerationFlag) (usage, value string) {
	usage = doc.GetUsage()
	if before, rest, ok := strings.Cut(usage, "`"); ok {
		word, after, _ := strings.Cut(rest, "`")
		usage, value = before+word+after, word
	}
	if text := doc.GetDefaultText(); text != "" && doc.TakesValue() && text != `""` && text != "0" {
		usage += " (default " + strings.Trim(text, `"`) + ")"
	}
	return usage, value
}

// printFlagHelp writes the description of a flag.
func printFlagHelp(b *bufio.Writer, f cli.Flag, doc cli.DocGenerationFlag) {
	usage, value := flagUsage(doc)
	if value != "" {
		value = " " + value
	}
	fmt.Fprintf(b, "  %-38s %s\n", dashedNames(f)+value, usage)
}
