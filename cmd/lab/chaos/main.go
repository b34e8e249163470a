// Command chaos runs a cluster of real daemons, each machine in a network namespace with a disk of
// its own. A seeded schedule of faults hurts it while clients submit, cancel, rename and train. At
// the end it heals everything and compares what clients and jobs saw with what the cluster says. It
// exits with 1 if they differ. It needs root. See docs/reliability.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rota-hpc/rota/cmd/lab"
)

// The cluster.
const (
	controllers = 3
	nodes       = 3
	gpus        = 2 // on each node
	diskSize    = "768m"
)

// settings make leases short, so that a run of two minutes sees some end.
const settings = `lease {
  duration  = "6s"
  margin    = "2s"
  node_down = "2s"
}
`

type options struct {
	bin     string
	keep    string
	only    string
	seed    uint64
	minutes float64
	verbose bool
}

func main() {
	var o options
	flag.StringVar(&o.bin, "bin", "bin", "directory with the programs")
	flag.StringVar(&o.keep, "keep", "", "directory where logs of the daemons go when something is wrong")
	flag.StringVar(&o.only, "only", "", "faults to inject, separated by commas (default: all)")
	flag.Uint64Var(&o.seed, "seed", 0, "seed of the schedule; 0: a random seed")
	flag.Float64Var(&o.minutes, "minutes", 2, "how long faults go on")
	flag.BoolVar(&o.verbose, "v", false, "print each fault when it begins")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "chaos: unexpected argument %q; -help lists the flags\n", flag.Arg(0))
		os.Exit(2)
	}
	if o.seed == 0 {
		o.seed = rand.Uint64N(1 << 32)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	bad, err := run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "chaos: seed %d: %v\n", o.seed, err)
	}
	if bad || err != nil {
		os.Exit(1)
	}
}

// run returns true if something was violated.
func run(ctx context.Context, o options) (bad bool, err error) {
	if err := checkKinds(o.only); err != nil {
		return false, err
	}
	if os.Getuid() != 0 {
		return false, errors.New("needs root: it makes network namespaces, mounts disks and runs containers")
	}
	bin, err := filepath.Abs(o.bin)
	if err != nil {
		return false, err
	}
	dir, err := os.MkdirTemp("", "rota-chaos-") // short: the path of a socket has a limit
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(dir)
	cluster, shared, err := start(ctx, bin, dir)
	if cluster != nil {
		defer func() {
			err = errors.Join(err, cluster.Stop())
			if o.keep != "" && (bad || err != nil) {
				err = errors.Join(err, cluster.KeepLogs(o.keep))
			}
		}()
	}
	if err != nil {
		return false, err
	}
	v, err := hurt(ctx, o, cluster, dir, shared)
	if err != nil {
		return false, err
	}
	for _, n := range v.notes {
		fmt.Println(" ", n)
	}
	for _, x := range v.violations {
		fmt.Println("  VIOLATION:", x)
	}
	fmt.Printf("seed %d: %d violations\n", o.seed, len(v.violations))
	return len(v.violations) > 0, nil
}

// start starts the cluster. Jobs share one directory.
func start(ctx context.Context, bin, dir string) (*lab.Cluster, string, error) {
	shared, err := lab.Share(bin, dir)
	if err != nil {
		return nil, "", err
	}
	config := filepath.Join(dir, "cluster.hcl")
	if err := os.WriteFile(config, []byte(settings), 0o644); err != nil {
		return nil, "", err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c, err := lab.Start(ctx, lab.Options{
		Bin: bin, Dir: dir, Controllers: controllers, Nodes: nodes, GPUs: gpus, Cores: 8, Shared: []string{shared},
		Namespaces: true, Disks: diskSize, Controld: []string{"--root-jobs-as", "nobody", "--config", config},
	})
	return c, shared, err
}

// hurt runs clients and faults, heals, and judges.
func hurt(ctx context.Context, o options, cluster *lab.Cluster, dir, shared string) (*judge, error) {
	length := time.Duration(o.minutes * float64(time.Minute))
	begin := time.Now()
	h := &harm{cluster: cluster, begin: begin, verbose: o.verbose}
	r := rand.New(rand.NewPCG(o.seed, 0))
	one := schedule(r, chosen(onControllers, o.only), controllers, faultMax, length)
	two := schedule(r, chosen(onNodes, o.only), nodes, nodeFaultMax, length)

	loading, stop := context.WithCancel(ctx)
	defer stop()
	c := &clients{ctx: loading, begin: begin, addr: cluster.Addr(), dir: dir, shared: shared,
		bin: filepath.Join(shared, "bin")}
	loaded := make(chan error, 1)
	go func() { loaded <- c.run() }()

	var wg sync.WaitGroup
	var errs [2]error
	timed, cancel := context.WithDeadline(loading, begin.Add(length)) // faults take longer than planned
	defer cancel()
	harm := func(i int, faults []fault, on []*lab.Daemon) {
		if errs[i] = h.run(timed, faults, on); errs[i] != nil {
			stop()
		}
	}
	wg.Go(func() { harm(0, one, cluster.Controllers) })
	wg.Go(func() { harm(1, two, cluster.Nodes) })
	wg.Wait()
	lab.Sleep(loading, length-time.Since(begin))
	stop()
	err := errors.Join(errs[0], errs[1], <-loaded)
	if err = errors.Join(err, ctx.Err()); err != nil {
		return nil, err
	}
	fmt.Printf("seed %d, %.0f s, faults: %s; %d damaged logs refused, and these controllers replaced\n", o.seed,
		time.Since(begin).Seconds(), countsText(h.windows), h.replaced)
	if err := h.heal(ctx); err != nil {
		return nil, fmt.Errorf("the cluster does not recover: %w", err)
	}
	client, err := cluster.Client()
	if err != nil {
		return nil, err
	}
	defer client.Close()
	v := &judge{cluster: cluster, client: client, clients: c, windows: h.windows, bin: c.bin, keep: o.keep}
	return v, v.verify(ctx)
}

// countsText lists how often each fault was done.
func countsText(windows []window) string {
	counts := map[kind]int{}
	for _, w := range windows {
		counts[w.kind]++
	}
	var words []string
	for k, n := range counts {
		words = append(words, fmt.Sprintf("%d %s", n, k))
	}
	slices.Sort(words)
	return fmt.Sprintf("%d (%s)", len(windows), strings.Join(words, ", "))
}
