package api

import (
	"context"

	"github.com/rota-hpc/rota/controld/model"
)

// Sched is what operators have told the scheduler.
type Sched struct {
	Settings []SchedSetting `json:"settings"`
}

// SchedSetting is a switch of the scheduler that is on: a pause of preemption, growth, migration,
// slicing, packing or all, or the dry-run.
type SchedSetting struct {
	What   string `json:"what"`
	By     string `json:"by"`
	Reason string `json:"reason,omitempty"`
	Since  *Time  `json:"since"`
}

// SchedRequest turns a switch of the scheduler on or off.
type SchedRequest struct {
	What   string `json:"what"`
	On     bool   `json:"on"`
	Reason string `json:"reason,omitempty"`
}

// Displacement is what the scheduler would have asked of a running job but for a dry run.
type Displacement struct {
	Job            model.JobID `json:"job"`
	Attempt        int         `json:"attempt"`
	For            model.JobID `json:"for,omitempty"` // that would get the room
	Cause          model.Cause `json:"cause"`
	Workers        int         `json:"workers,omitempty"` // that it would give up; 0: all
	Grace          int64       `json:"grace"`             // seconds that it has asked for to leave
	LostGPUSeconds int64       `json:"lost_gpu_s"`        // work that it would lose
	Since          *Time       `json:"since"`             // when it was recorded; null in a plan
	User           string      `json:"user,omitempty"`    // of the job
	Account        string      `json:"account,omitempty"`
}

// Sched returns what operators have told the scheduler.
func (c *Client) Sched(ctx context.Context) (*Sched, Answer, error) {
	return get[Sched](ctx, c, "/v1/sched", nil, Read{})
}

// Steer turns a switch of the scheduler on or off.
func (c *Client) Steer(ctx context.Context, req SchedRequest) (*Sched, error) {
	return post[Sched](ctx, c, call{path: "/v1/sched", repeat: true}, req)
}

// Displacements lists what a dry run has recorded, oldest first.
func (c *Client) Displacements(ctx context.Context) (*List[Displacement], error) {
	list, _, err := get[List[Displacement]](ctx, c, "/v1/sched/displacements", nil, Read{})
	return list, err
}
