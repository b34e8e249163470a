// Command rota-papers runs the commands in cmd/lab/papers.md and writes its tables. In the
// document, the commands of a table stand before it, in a code block of the language sh. A comment after them
// defines the columns; see [block]. So readers see what was run. A section whose trace is missing
// keeps its table, and the program names it.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"time"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "rota-papers: %v\n", err)
		os.Exit(1)
	}
}

// press is one run over a document.
type press struct {
	rota     string // the program
	sections []string
	out      io.Writer
	run      func(ctx context.Context, words []string) ([]byte, error) // for tests
	known    map[string][]*outcome                                     // by the command's words
}

func run(args []string, out io.Writer) error {
	if len(args) > 0 && args[0] == "specon" {
		return runSpecon(args[1:], out)
	}
	flags := flag.NewFlagSet("rota-papers", flag.ContinueOnError)
	flags.Usage = func() {
		fmt.Fprint(flags.Output(), "Usage: rota-papers [--rota PROGRAM] FILE.md [SECTION...]\n"+
			"       rota-papers specon RUN...\n"+
			"\n"+
			"Writes the tables of FILE.md, or only of the sections whose titles contain one of the given words.\n"+
			"ROTA_TRACES names the folder of the traces.\n"+
			"\n"+
			"")
		flags.PrintDefaults()
	}
	rota := flags.String("rota", beside("rota"), "the `PROGRAM` that simulates")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() == 0 {
		return fmt.Errorf("name a document: rota-papers cmd/lab/papers.md")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	p := &press{rota: *rota, sections: flags.Args()[1:], out: out}
	p.run = p.execute
	return p.file(ctx, flags.Arg(0))
}

// beside returns the path of a program in the folder of this one.
func beside(name string) string {
	self, err := os.Executable()
	if err != nil {
		return name
	}
	return filepath.Join(filepath.Dir(self), name)
}

// file rewrites a document after each table, so that computed tables are kept when a later one
// fails.
func (p *press) file(ctx context.Context, name string) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	doc, err := parse(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	for _, b := range doc.blocks {
		if !p.wanted(b) {
			continue
		}
		if missing := b.missing(); missing != "" {
			fmt.Fprintf(p.out, "%s: kept as it is: %s is missing\n", b.title, missing)
			continue
		}
		began := time.Now()
		if err := p.fill(ctx, b); err != nil {
			return fmt.Errorf("%s: %s: %w", name, b.title, err)
		}
		fmt.Fprintf(p.out, "%s: %.0f s\n%s\n", b.title, time.Since(began).Seconds(), strings.Join(b.table, "\n"))
		if err := os.WriteFile(name, []byte(doc.String()), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func (p *press) wanted(b *block) bool {
	for _, s := range p.sections {
		if strings.Contains(strings.ToLower(b.title), strings.ToLower(s)) {
			return true
		}
	}
	return len(p.sections) == 0
}

// fill runs the commands of a block and makes its table.
func (p *press) fill(ctx context.Context, b *block) error {
	var all []*outcome
	for _, words := range b.commands {
		found, err := p.outcomes(ctx, words)
		if err != nil {
			return fmt.Errorf("%s: %w", strings.Join(words, " "), err)
		}
		all = append(all, found...)
	}
	var err error
	b.table, err = b.render(all)
	return err
}

// outcomes runs a command, once for all tables that use it.
func (p *press) outcomes(ctx context.Context, words []string) ([]*outcome, error) {
	line := strings.Join(words, " ")
	if known := p.known[line]; known != nil {
		return known, nil
	}
	out, err := p.run(ctx, expand(words))
	if err != nil {
		return nil, err
	}
	found, err := outcomes(out)
	if err != nil {
		return nil, err
	}
	if p.known == nil {
		p.known = map[string][]*outcome{}
	}
	p.known[line] = found
	return found, nil
}

// execute runs one command of the document and returns what it prints as JSON.
func (p *press) execute(ctx context.Context, words []string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, p.rota, append(words[1:], "-o", "json")...)
	if words[0] == itself {
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		cmd = exec.CommandContext(ctx, self, words[1:]...)
	}
	var complaint strings.Builder
	cmd.Stderr = &complaint
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, strings.TrimSpace(complaint.String()))
	}
	return out, nil
}

// tracesVariable names the folder with the traces, in the environment and in commands.
const tracesVariable = "ROTA_TRACES"

// expand replaces the variable with the folder of the traces.
func expand(words []string) []string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = strings.ReplaceAll(w, "$"+tracesVariable, os.Getenv(tracesVariable))
	}
	return out
}

// missing returns a trace that the block needs and that does not exist, "" if all exist.
func (b *block) missing() string {
	for _, words := range b.commands {
		for _, w := range words {
			if !strings.Contains(w, "$"+tracesVariable) {
				continue
			}
			if os.Getenv(tracesVariable) == "" {
				return tracesVariable
			}
			if _, err := os.Stat(expand([]string{w})[0]); err != nil {
				return w
			}
		}
	}
	return ""
}
