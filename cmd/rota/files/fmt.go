package files

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/input"
	"github.com/rota-hpc/rota/jobspec/hclfile"
	"github.com/rota-hpc/rota/jobspec/hclfile/diagnostic"
	"github.com/rota-hpc/rota/jobspec/jobfile"
)

// formatFiles formats job files.
func formatFiles(env *command.Env, c *cli.Context) error {
	if f := c.String("output"); f != "" {
		return exit.Usagef("-o %s: rota fmt prints only file names", f)
	}
	args := c.Args().Slice()
	if len(args) == 0 {
		args = []string{"."}
	}
	changed, bad := 0, 0
	for _, arg := range args {
		names, err := jobFiles(arg)
		if err != nil {
			bad++
			env.PrintError(false, err)
		}
		for _, name := range names {
			did, err := formatOne(env, name, c.Bool("check"))
			if err != nil {
				bad++
				env.PrintError(false, err)
			}
			if did {
				changed++
			}
		}
	}
	switch {
	case bad > 0:
		return exit.WithCode(exit.Usage)
	case changed > 0 && c.Bool("check"):
		return exit.WithCode(exit.Failed)
	}
	return nil
}

// jobFiles returns the files of an argument: those in a directory, or the one file.
func jobFiles(arg string) ([]string, error) {
	info, err := os.Stat(arg)
	if arg == "-" || err != nil || !info.IsDir() {
		return []string{arg}, nil
	}
	entries, err := os.ReadDir(arg)
	if err != nil {
		return nil, exit.Usagef("%v", err)
	}
	var names []string
	for _, e := range entries {
		if filepath.Ext(e.Name()) == ".hcl" {
			names = append(names, filepath.Join(arg, e.Name()))
		}
	}
	if len(names) == 0 {
		return nil, exit.Usagef("no *.hcl files in %s", arg)
	}
	return names, nil
}

// formatOne formats one file and reports whether it changes.
func formatOne(env *command.Env, name string, check bool) (bool, error) {
	src, shown, _, err := jobfile.ReadFile(name, env.Stdin)
	if err != nil {
		return false, input.UnreadableFile(err)
	}
	out, err := hclfile.Format(shown, src)
	if err != nil {
		var diags diagnostic.Diagnostics
		if errors.As(err, &diags) {
			return false, &exit.FileError{Name: shown, Diags: diags}
		}
		return false, fmt.Errorf("%s: %w", shown, err)
	}
	same := bytes.Equal(out, src)
	switch {
	case name == "-" && !check:
		_, err = env.Stdout.Write(out)
		return !same, err
	case same:
		return false, nil
	case !check:
		if err := replaceFile(name, out); err != nil {
			return false, err
		}
	}
	_, err = fmt.Fprintln(env.Stdout, shown)
	return true, err
}

// replaceFile replaces the text of a file, whole or not at all. A symbolic link stays one.
func replaceFile(name string, text []byte) error {
	name, err := filepath.EvalSymlinks(name)
	if err != nil {
		return err
	}
	info, err := os.Stat(name)
	if err != nil {
		return err
	}
	next, err := os.CreateTemp(filepath.Dir(name), ".rota-fmt-*")
	if err != nil {
		return err
	}
	defer os.Remove(next.Name()) // already renamed if there was no error
	_, err = next.Write(text)
	if err := errors.Join(err, next.Chmod(info.Mode().Perm()), next.Close()); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return os.Rename(next.Name(), name)
}
