// Command rota-bench measures Rota beside a peer or a physical limit, in one run on one machine,
// and writes the results as JSON. It judges no number but one: no acknowledged job may be lost with
// a killed leader. cmd/lab/benchmarks.md says what the numbers mean. It needs root, since jobs run
// in real containers.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"syscall"
	"text/tabwriter"
	"time"
)

// result is one measured number.
type result struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
	Goal  string  `json:"goal"`
	Peer  string  `json:"peer"`
}

// bench collects results. Measurements share its scratch directory and its clusters' programs.
type bench struct {
	bin, dir string
	seed     uint64
	quick    bool
	out      io.Writer
	results  []result
}

func (b *bench) add(name string, value float64, unit, goal, peer string) {
	b.results = append(b.results, result{name, value, unit, goal, peer})
	fmt.Fprintf(b.out, "%-44s %12.2f %-8s goal %-22s %s\n", name, value, unit, goal, peer)
}

// measurement is one group of numbers.
type measurement struct {
	name string
	run  func(context.Context, *bench) error
}

// measurements in the order in which they are taken: the quiet ones first.
var measurements = []measurement{
	{"start", measureStart},
	{"latency", measureLatency},
	{"throughput", measureThroughput},
	{"submit", measureSubmit},
	{"names", measureNames},
	{"queue", measureQueue},
	{"backup", measureBackup},
	{"cycle", cycleOfAFullQueue},
	{"decide", measureDecide},
	{"simulate", measureSimulate},
	{"kill", measureKill},
	{"failover", measureFailover},
	{"slurmctld", measureSlurmctld},
}

func main() {
	if len(os.Args) == 3 && os.Args[1] == emptyServer {
		serveEmpty(os.Args[2])
	}
	signal.Ignore(syscall.SIGPIPE) // the reader of the table may exit early; the clusters are stopped all the same
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "rota-bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	b := &bench{out: out}
	f := flag.NewFlagSet("rota-bench", flag.ContinueOnError)
	file := f.String("out", "bench.json", "file for the results")
	only := f.String("only", "", "regular expression of the measurements to take: "+
		"start, latency, throughput, submit, names, queue, backup, cycle, decide, simulate, kill, failover, slurmctld")
	f.StringVar(&b.bin, "bin", "bin", "directory with Rota's programs")
	f.Uint64Var(&b.seed, "seed", 1, "seed for the instants at which leaders are killed")
	f.BoolVar(&b.quick, "quick", false, "make only a tenth of the repetitions")
	if err := f.Parse(args); err != nil {
		return err
	}
	want, err := regexp.Compile(*only)
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	if os.Getuid() != 0 {
		return errors.New("jobs run in real containers: run it as root")
	}
	if b.bin, err = filepath.Abs(b.bin); err != nil {
		return err
	}
	if b.dir, err = os.MkdirTemp("", "rota-bench-"); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	if err := os.Chmod(b.dir, 0o755); err != nil {
		return err
	}
	return errors.Join(b.all(ctx, want), b.write(*file))
}

func (b *bench) all(ctx context.Context, want *regexp.Regexp) error {
	var errs []error
	for _, m := range measurements {
		if !want.MatchString(m.name) || ctx.Err() != nil {
			continue
		}
		if err := m.run(ctx, b); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", m.name, err))
		}
	}
	return errors.Join(append(errs, context.Cause(ctx))...)
}

// write saves the results and prints them as a table.
func (b *bench) write(file string) error {
	body, err := json.MarshalIndent(b.results, "", "  ")
	if err != nil {
		return err
	}
	t := tabwriter.NewWriter(b.out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "\nNAME\tVALUE\tUNIT\tGOAL\tBESIDE IT")
	for _, r := range b.results {
		fmt.Fprintf(t, "%s\t%.2f\t%s\t%s\t%s\n", r.Name, r.Value, r.Unit, r.Goal, r.Peer)
	}
	return errors.Join(t.Flush(), os.WriteFile(file, append(body, '\n'), 0o644))
}

// repeat scales a number of repetitions.
func (b *bench) repeat(n int) int {
	if b.quick {
		return max(1, n/10)
	}
	return n
}

// span scales how long a rate is measured for.
func (b *bench) span(d time.Duration) time.Duration {
	if b.quick {
		return d / 10
	}
	return d
}

// percentile is the nearest-rank percentile, in milliseconds.
func percentile(ds []time.Duration, p int) float64 {
	if len(ds) == 0 {
		return 0
	}
	s := slices.Clone(ds)
	slices.Sort(s)
	rank := (p*len(s) + 99) / 100
	return float64(s[max(rank, 1)-1].Microseconds()) / 1000
}
