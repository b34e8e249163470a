// Command cover measures which statements the tests run, and writes the table of coverage.md.
// It runs in the root of the product's module, and also takes packages of the laboratory's module.
// `make cover` measures all packages. `make cover PKG=./consensus/...` measures some, and keeps the
// rows of the others.
//
// A package's row counts the statements that its own tests run. A row may name further packages:
// their tests count too, for a package that is tested through another one. If a test starts itself
// as a program of Rota, the statements of that program count.
package main

import (
	"bufio"
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Marks between which the table stands in the page.
const (
	tableBegins = "<!-- coverage -->\n"
	tableEnds   = "<!-- end of coverage -->\n"
)

func main() {
	timeout := flag.String("timeout", "15m", "time limit for the tests of each package")
	flag.Parse()
	if flag.NArg() < 2 {
		fmt.Fprintln(os.Stderr, "usage: cover [-timeout 15m] PAGE PACKAGE...")
		os.Exit(2)
	}
	if err := run(flag.Arg(0), *timeout, flag.Args()[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "cover:", err)
		os.Exit(1)
	}
}

func run(page, timeout string, patterns []string) error {
	dir, err := os.MkdirTemp("", "rota-cover-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	module, err := output(".", "go", "list", "-m")
	if err != nil {
		return err
	}
	module = strings.TrimSpace(module)
	measured := coverage{}
	var all []string
	for root, patterns := range byModule(patterns) {
		list, err := output(root, "go", append([]string{"list", "-f", "{{.ImportPath}} {{len .GoFiles}} " +
			"{{len .TestGoFiles}} {{len .XTestGoFiles}}"}, patterns...)...)
		if err != nil {
			return err
		}
		for line := range strings.Lines(list) {
			var name string
			var files, inside, outside int
			if _, err := fmt.Sscan(line, &name, &files, &inside, &outside); err != nil {
				return fmt.Errorf("go list: %q: %w", line, err)
			}
			if files == 0 {
				continue
			}
			all = append(all, name)
			if inside+outside == 0 {
				continue
			}
			if err := measured.run(root, name, module, timeout, dir); err != nil {
				return err
			}
		}
	}
	return rewrite(page, module, all, measured)
}

// laboratory is the folder of the module of the laboratory, in that of the product.
const laboratory = "cmd/lab"

// byModule sorts patterns of packages, as from the root of the product, by the module's folder. A
// pattern for the laboratory and more, such as ./..., goes to both.
func byModule(patterns []string) map[string][]string {
	sorted := map[string][]string{}
	for _, pattern := range patterns {
		name := path.Clean(pattern)
		if inside, ok := strings.CutPrefix(name+"/", laboratory+"/"); ok {
			sorted[laboratory] = append(sorted[laboratory], "./"+strings.TrimSuffix(inside, "/"))
			continue
		}
		sorted["."] = append(sorted["."], pattern)
		if above, ok := strings.CutSuffix(name, "..."); ok && strings.HasPrefix(laboratory+"/", above) {
			sorted[laboratory] = append(sorted[laboratory], "./...")
		}
	}
	return sorted
}

// run adds what the tests of a package run, and the processes of their own that they start. root is
// the folder of the package's module.
func (c coverage) run(root, name, module, timeout, dir string) error {
	profile, processes := filepath.Join(dir, "profile"), filepath.Join(dir, "processes")
	if err := errors.Join(os.RemoveAll(processes), os.Mkdir(processes, 0o700),
		os.Setenv("GOCOVERDIR", processes)); err != nil {
		return err
	}
	text, err := output(root, "go", "test", "-timeout="+timeout, "-coverpkg="+module+"/...", "-coverprofile="+profile,
		name)
	if err != nil {
		return fmt.Errorf("%w:\n%s", err, text)
	}
	if err := c.read(name, profile); err != nil {
		return err
	}
	if files, err := os.ReadDir(processes); err != nil || len(files) == 0 {
		return err
	}
	if _, err := output(root, "go", "tool", "covdata", "textfmt", "-i="+processes, "-o="+profile); err != nil {
		return err
	}
	return c.read(name, profile)
}

// output runs a program in a folder and returns what it prints.
func output(dir, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Stderr = os.Stderr
	text, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return string(text), err
}

// block is a sequence of statements.
type block struct {
	place      string // FILE:BEGIN,END
	statements int
}

// coverage says of each package which of its blocks are run, by its own tests and by any that were
// measured.
type coverage map[string]map[block]*ran

type ran struct{ own, any bool }

// read adds the profile of one package's tests.
func (c coverage) read(tests, profile string) error {
	f, err := os.Open(profile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // no test ran
	} else if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Scan() // mode
	for lines.Scan() {
		var b block
		var count int
		if _, err := fmt.Sscan(lines.Text(), &b.place, &b.statements, &count); err != nil {
			return fmt.Errorf("profile: %q: %w", lines.Text(), err)
		}
		file, _, _ := strings.Cut(b.place, ":")
		name := path.Dir(file)
		if c[name] == nil {
			c[name] = map[block]*ran{}
		}
		if c[name][b] == nil {
			c[name][b] = &ran{}
		}
		r := c[name][b]
		r.any = r.any || count > 0
		r.own = r.own || count > 0 && name == tests
	}
	return lines.Err()
}

// row writes what is known of a package.
func (c coverage) row(module, name string) string {
	var all, own, any int
	for b, r := range c[name] {
		all += b.statements
		if r.own {
			own += b.statements
		}
		if r.any {
			any += b.statements
		}
	}
	if all == 0 {
		return ""
	}
	return fmt.Sprintf("| `%s` | %d | %d %% | %d %% |", shortName(module, name), all, 100*own/all, 100*any/all)
}

func shortName(module, name string) string {
	return cmp.Or(strings.TrimPrefix(strings.TrimPrefix(name, module), "/"), ".")
}

// rewrite replaces the rows of packages in the table of a page.
func rewrite(page, module string, packages []string, measured coverage) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	before, rest, found := strings.Cut(string(text), tableBegins)
	table, after, ends := strings.Cut(rest, tableEnds)
	if !found || !ends {
		return fmt.Errorf("%s has no table between %q and %q", page, tableBegins, tableEnds)
	}
	rows := map[string]string{}
	for line := range strings.Lines(table) {
		if name, _, ok := strings.Cut(strings.TrimPrefix(line, "| `"), "`"); ok && strings.HasPrefix(line, "| `") {
			rows[name] = strings.TrimSpace(line)
		}
	}
	for _, name := range packages {
		delete(rows, shortName(module, name))
		if row := measured.row(module, name); row != "" {
			rows[shortName(module, name)] = row
		}
	}
	var b strings.Builder
	b.WriteString(before + tableBegins)
	b.WriteString("| package | statements | run by its own tests | by any test measured with it |\n|---|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		b.WriteString(rows[name] + "\n")
	}
	b.WriteString(tableEnds + after)
	return os.WriteFile(page, []byte(b.String()), 0o644)
}
