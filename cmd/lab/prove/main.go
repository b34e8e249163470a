// Command prove runs a seeded stream of jobs on a cluster of real daemons, real containers and
// simulated GPUs under the default policy. It kills leaders meanwhile. At the end it proves, from
// the jobs' own records, that nothing went wrong. Each property has a line. It exits with 1 if one
// is violated. It needs root. See docs/testing.md.
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
	"syscall"
	"time"

	"github.com/rota-hpc/rota/cmd/lab"
)

// The cluster.
const (
	controllers = 3
	nodes       = 4
	gpus        = 4 // on each node
	patience    = time.Minute
)

type options struct {
	bin       string
	keep      string
	seed      uint64
	minutes   float64
	sharing   float64
	moveTimes int
	verbose   bool
}

func main() {
	var o options
	flag.StringVar(&o.bin, "bin", "bin", "directory with the programs")
	flag.StringVar(&o.keep, "keep", "", "directory where the logs of the daemons go, and the data of the controllers")
	flag.Uint64Var(&o.seed, "seed", 0, "seed of jobs and kills; 0: a random seed")
	flag.Float64Var(&o.minutes, "minutes", 3, "how long jobs are submitted and leaders are killed")
	flag.Float64Var(&o.sharing, "sharing", 4, "for how many minutes, at least, jobs share GPUs; 0: not at all")
	flag.IntVar(&o.moveTimes, "moves", 20, "how often a job is moved to another node")
	flag.BoolVar(&o.verbose, "v", false, "print each kill of a leader when it begins")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "prove: unexpected argument %q; -help lists the flags\n", flag.Arg(0))
		os.Exit(2)
	}
	if o.seed == 0 {
		o.seed = rand.Uint64N(1 << 32)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	bad, err := run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "prove: seed %d: %v\n", o.seed, err)
	}
	if bad > 0 || err != nil {
		os.Exit(1)
	}
}

// run returns how many properties were violated.
func run(ctx context.Context, o options) (bad int, err error) {
	if os.Getuid() != 0 {
		return 0, errors.New("needs root: it makes network namespaces and runs containers")
	}
	bin, err := filepath.Abs(o.bin)
	if err != nil {
		return 0, err
	}
	dir, err := os.MkdirTemp("", "rota-prove-") // short: the path of a socket has a limit
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	p := &proof{options: o, dir: dir}
	p.bin = bin
	if err = p.start(ctx); err == nil {
		err = p.prove(ctx)
	}
	if p.cluster != nil {
		err = errors.Join(err, p.end(ctx, err == nil))
	}
	fmt.Printf("seed %d: %d of %d properties violated\n", o.seed, p.violated, p.checked)
	return p.violated, err
}

// proof is one run.
type proof struct {
	options
	report
	dir, shared string
	cluster     *lab.Cluster
	log         *eventLog
	stream      *stream
	kills       *killer
}

// start starts the cluster, with its settings as they come.
func (p *proof) start(ctx context.Context) (err error) {
	if p.shared, err = lab.Share(p.bin, p.dir); err != nil {
		return err
	}
	config := filepath.Join(p.dir, "cluster.hcl")
	if err := os.WriteFile(config, []byte(settings), 0o644); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	p.cluster, err = lab.Start(ctx, lab.Options{
		Bin: p.bin, Dir: p.dir, Controllers: controllers, Nodes: nodes, GPUs: gpus, Cores: 16, Shared: []string{p.shared},
		Namespaces: true, Controld: []string{"--root-jobs-as", "nobody", "--config", config},
	})
	return err
}

// settings name two accounts that the user of the jobs may charge, and queues the jobs of which
// share GPUs: the policy and its parameters are those of a new cluster.
const settings = `account "speech" {
  users = ["nobody"]
}
account "vision" {
  users = ["nobody"]
}
queue "turns" {
  oversubscribe = 2
}
queue "packs" {
  oversubscribe = 2
  pack          = true
}
`
