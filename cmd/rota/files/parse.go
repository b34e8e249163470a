package files

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/input"
	"github.com/rota-hpc/rota/cmd/rota/table"
	"github.com/rota-hpc/rota/jobspec/jobfile"
)

// parseFile prints the canonical form of a job.
func parseFile(env *command.Env, c *cli.Context) error {
	form, err := env.Format(c, table.JSON, table.YAML)
	if err != nil {
		return err
	}
	if c.Args().Len() != 1 {
		return exit.Usagef("rota parse needs one job file, or - for standard input: rota parse %s", c.Command.ArgsUsage)
	}
	read, err := input.ReadFile(env, c.Args().First(), c)
	if err != nil {
		return err
	}
	if c.Bool("digest") {
		version, err := read.Job.Version()
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(env.Stdout, version)
		return err
	}
	if c.Bool("sensitive") {
		read.Sensitive = nil
	}
	value, err := shownJob(read)
	if err != nil {
		return err
	}
	if form == table.YAML {
		return table.PrintYAML(env.Stdout, value)
	}
	return table.PrintJSON(env.Stdout, value)
}

// shownJob returns the canonical form of a job, with values from sensitive variables concealed.
func shownJob(read jobfile.Read) (any, error) {
	text, err := read.Job.Canonical()
	if err != nil {
		return nil, err
	}
	value, err := decodeAny(text)
	if err != nil {
		return nil, err
	}
	for _, path := range read.Sensitive {
		conceal(value, splitPath(path))
	}
	return value, nil
}

// decodeAny decodes JSON into maps and lists.
func decodeAny(text []byte) (any, error) {
	var value any
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	if err := dec.Decode(&value); err != nil {
		return nil, err
	}
	return value, nil
}

// concealed replaces a value from a sensitive variable.
const concealed = "(sensitive)"

// conceal replaces the value at a path within maps and lists.
func conceal(value any, path []string) {
	for i, step := range path {
		last := i == len(path)-1
		switch v := value.(type) {
		case map[string]any:
			if _, there := v[step]; last && there {
				v[step] = concealed
			}
			value = v[step]
		case []any:
			n, err := strconv.Atoi(step)
			if err != nil || n < 0 || n >= len(v) {
				return
			}
			if last {
				v[n] = concealed
			}
			value = v[n]
		default:
			return
		}
	}
}

var pathSteps = regexp.MustCompile(`[^.\[\]]+`)

// splitPath splits a path such as groups[0].tasks[1].env.KEY.
func splitPath(path string) []string { return pathSteps.FindAllString(path, -1) }
