package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/rota-hpc/rota/cmd/lab"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/pki"
	"github.com/rota-hpc/rota/controld/model"
)

// countingNode speaks the protocol of a node daemon and counts how often each job's command would
// have started.
type countingNode struct {
	client *api.Client
	name   string
	shared string
	gpus   int
	pace   time.Duration // between a start and its end
	starts map[model.JobID]int
}

const countingBoot = "counting-boot"

// joinCounting makes a counting node of a cluster. Like a node daemon it is a member by its
// certificate, and talks to the controllers over TLS.
func joinCounting(c *lab.Cluster, name string) (*countingNode, error) {
	credential, err := c.Join(pki.Node, name)
	if err != nil {
		return nil, err
	}
	client, err := api.DialWith(c.HTTPS(), api.Options{TLS: credential.Client(pki.Controller), Any4xx: true})
	if err != nil {
		return nil, err
	}
	return &countingNode{client: client, name: name, shared: c.Shared[0], starts: map[model.JobID]int{}}, nil
}

func (n *countingNode) register(ctx context.Context) error {
	node := model.Node{
		Name: n.name, Addr: "127.0.0.1:1", BootID: countingBoot, Version: "bench", Cores: 10_000, Memory: 1 << 50,
		SharedPath: []string{n.shared}, PortMin: 29500, PortMax: 60000, State: model.NodeUp,
	}
	for g := range n.gpus {
		node.GPUs = append(node.GPUs,
			model.GPU{UUID: fmt.Sprintf("GPU-SIM-%s-%d", n.name, g), Model: "Simulated", Memory: 80 << 30, Minor: -1,
				Healthy: true})
	}
	_, err := n.client.Register(ctx, n.name, api.RegisterRequest{Node: node})
	return err
}

// start registers the node and runs it until stop is called, which closes its connections.
func (n *countingNode) start(ctx context.Context) (stop func(), err error) {
	if err := n.register(ctx); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { n.run(ctx) })
	return func() { cancel(); running.Wait(); n.client.Close() }, nil
}

// run fetches and ends workers until ctx ends. Like a node daemon it starts a worker once, however
// often it is listed, and repeats a report until it is acknowledged.
func (n *countingNode) run(ctx context.Context) {
	type worker struct {
		job     model.JobID
		attempt int
	}
	known := map[worker]bool{}
	var after uint64
	var echo api.Echo
	for ctx.Err() == nil {
		allocs, err := n.client.Allocs(ctx, n.name, countingBoot, after, 5*time.Second, echo)
		if err != nil {
			after = 0
			continue // no leader at present
		}
		after = allocs.Index
		if echo.Sent = allocs.Sent; allocs.Witnesses != nil {
			echo.Witnesses = allocs.Witnesses.Key()
		}
		var reports []model.WorkerReport
		for _, a := range allocs.Allocs {
			w := worker{a.Job, a.Attempt}
			if !known[w] {
				known[w] = true
				n.starts[a.Job]++
			}
			reports = append(reports, model.WorkerReport{Job: a.Job, Attempt: a.Attempt, Worker: a.Worker,
				State: model.WorkerExited})
		}
		if len(reports) > 0 && n.pace > 0 {
			select {
			case <-ctx.Done():
			case <-time.After(n.pace):
			}
		}
		for len(reports) > 0 && ctx.Err() == nil {
			if _, err := n.client.Report(ctx, n.name, api.ReportRequest{BootID: countingBoot, Workers: reports}); err == nil {
				break
			}
		}
	}
}
