// Command mutants changes one thing at a time in a package and asks the package's own tests whether
// they notice. `make mutants PKG=./controld/api N=200 SEED=1` runs it.
//
// It takes the same sample for the same seed and source. Gremlins, the known tool, has neither a
// sample nor a seed, runs only what is covered, and neither removes statements nor changes results.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	o := options{slack: 5 * time.Second}
	flag.IntVar(&o.most, "n", 200, "most mutants to run")
	flag.IntVar(&o.first, "first", 1, "number of the first mutant of the sample, as printed by the last part of a long "+
		"run")
	flag.Uint64Var(&o.seed, "seed", 1, "of the sample")
	flag.DurationVar(&o.limit, "limit", time.Hour, "time limit for all mutants, after the tests have run on the clean "+
		"source")
	flag.StringVar(&o.only, "only", "", "mutate only files whose name contains this")
	tests := flag.String("tests", "", "packages whose tests are run, separated by spaces (default: the package itself)")
	again := flag.String("again", "", "try only the survivors that this report of a former run lists")
	flag.StringVar(&o.pattern, "run", "", "only tests that match this, as go test -run")
	flag.BoolVar(&o.verbose, "v", false, "print each mutant and its verdict")
	flag.Parse()
	if flag.NArg() != 1 || o.first < 1 {
		fmt.Fprintln(os.Stderr, "usage: mutants [-n N] [-first I] [-seed S] [-limit 1h] [-only FILE] [-again REPORT] "+
			"[-tests 'PKG ...'] [-run TEST] PKG")
		os.Exit(2)
	}
	o.pkg, o.tests = flag.Arg(0), strings.Fields(*tests)
	if *again != "" {
		report, err := os.ReadFile(*again)
		if err != nil {
			fmt.Fprintln(os.Stderr, "mutants: the report of the former run:", err)
			os.Exit(1)
		}
		o.again = string(report)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

type options struct {
	pkg     string
	tests   []string
	again   string // report of a former run whose survivors are tried; "" for all mutants
	pattern string // of names of tests
	most    int
	first   int // in the shuffled list of all mutants, from 1
	seed    uint64
	limit   time.Duration
	only    string
	verbose bool
	slack   time.Duration // what a test run may take beyond three times that of the clean source
}

// outcome is what became of a mutant.
type outcome string

const (
	killed    outcome = "killed"
	survived  outcome = "survived"
	uncovered outcome = "not covered" // no test comes there, so it survives
	timedOut  outcome = "timeout"     // no verdict: it may be an endless loop, or a slow machine
	broken    outcome = "does not compile"
	same      outcome = "changes nothing" // it is the same program, so it does not count
)

// run tries a sample of a package's mutants until o.most of them have run, or until the time is over.
// It prints the result, and where the rest of the sample begins.
func run(ctx context.Context, o options, out io.Writer) error {
	dir, err := os.MkdirTemp("", "rota-mutants-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	// All mutants, and the test suites that are green on the clean source.
	p, all, err := sampleOf(o)
	if err != nil {
		return err
	}
	suites, err := newSuites(ctx, dir, p, o)
	if err != nil {
		return err
	}
	if len(suites.failing) > 0 {
		fmt.Fprintf(out, "left out, because they fail on the clean source here: %s\n", strings.Join(suites.failing, ", "))
	}
	end := time.Now().Add(o.limit)
	counts := map[outcome]int{}
	var survivors []string
	var stopped error
	next := min(max(o.first, 1), len(all)+1)
	var built *batch
	rest := all[next-1:]
	// Build batchSize mutants into one program, then try them one by one.
	for i, m := range rest {
		if i%batchSize == 0 && ran(counts) < o.most {
			if built, err = suites.newBatch(ctx, p, rest[i:min(i+min(batchSize, 2*o.most), len(rest))]); err != nil {
				return err
			}
		}
		if ran(counts) == o.most {
			break
		}
		if !time.Now().Before(end) {
			stopped = fmt.Errorf("the time limit of %v is over", o.limit)
		} else {
			stopped = ctx.Err()
		}
		if stopped != nil {
			break
		}
		got, err := suites.try(ctx, built, m)
		if err != nil {
			return err
		}
		if ctx.Err() != nil { // interrupted: it has no verdict, and the next turn ends the loop
			continue
		}
		next++
		counts[got]++
		if got == survived || got == uncovered {
			survivors = append(survivors, fmt.Sprintf("%s: %s", m, got))
		}
		if o.verbose {
			fmt.Fprintf(out, "%s: %s\n", m, got)
		}
	}
	report(out, o, p, len(all), counts, survivors, stopped)
	if next <= len(all) {
		fmt.Fprintf(out, "to run the rest of the sample, begin at mutant %d: FIRST=%d\n", next, next)
	}
	return nil
}

// sampleOf returns the package, and its mutants in the order in which they are tried. The seed alone
// gives the order, so that FIRST continues the same sample.
func sampleOf(o options) (*source, []*mutant, error) {
	p, err := findPackage(o.pkg)
	if err != nil {
		return nil, nil, err
	}
	all, err := p.mutants(o.only)
	if err != nil {
		return nil, nil, err
	}
	if o.again != "" {
		all = slices.DeleteFunc(all, func(m *mutant) bool { return !m.survivedIn(o.again) })
	}
	r := rand.New(rand.NewPCG(o.seed, 1))
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return p, all, nil
}

// ran is how many mutants were another program.
func ran(counts map[outcome]int) int {
	return counts[killed] + counts[survived] + counts[uncovered] + counts[timedOut]
}

func report(out io.Writer, o options, p *source, all int, counts map[outcome]int, survivors []string, stopped error) {
	w := bufio.NewWriter(out)
	defer func() { _ = w.Flush() }() // the terminal may be gone
	fmt.Fprintf(w, "%s: seed %d, %d of %d mutants (%d more do not compile or change nothing)\n", p.path, o.seed,
		ran(counts), all, counts[broken]+counts[same])
	if stopped != nil {
		fmt.Fprintf(w, "stopped before %d: %v\n", o.most, stopped)
	}
	judged := counts[killed] + counts[survived] + counts[uncovered]
	fmt.Fprintf(w, "killed %d, survived %d (%d of them in lines that no test reaches), timeout %d", counts[killed],
		counts[survived]+counts[uncovered], counts[uncovered], counts[timedOut])
	if judged > 0 {
		fmt.Fprintf(w, ": %d %% killed of those with a verdict", 100*counts[killed]/judged)
	}
	fmt.Fprintln(w)
	slices.Sort(survivors)
	for _, s := range survivors {
		fmt.Fprintln(w, s)
	}
}

// relative shortens a path below the working directory.
func relative(path string) string {
	here, err := os.Getwd()
	if err != nil {
		return path
	}
	if short, err := filepath.Rel(here, path); err == nil && !strings.HasPrefix(short, "..") {
		return short
	}
	return path
}

var errNoTests = errors.New("the package has no tests: name packages whose tests are to be run with -tests")
