package api

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// The protocol between a node daemon and the controllers. A node talks to any controller; followers
// forward requests to the leader.
//
//	POST /v1/nodes/{name}/register   RegisterRequest -> RegisterResponse   at start, and when the inventory changes
//	GET  /v1/nodes/{name}/allocs     ?boot_id=&after=INDEX&wait=10s -> NodeAllocs   long poll; renews the lease
//	POST /v1/nodes/{name}/report     ReportRequest -> ReportResponse       changes only, in batches

// HeaderGeneration carries the generation that the sender follows, as NUMBER-ID. A missing header
// means generation 0.
const HeaderGeneration = "Rota-Generation"

// Generation is the generation of a controller, as a node receives it. The node may follow it.
type Generation struct {
	Generation string `json:"generation"`
	Accepted   bool   `json:"accepted"` // the log has recorded that the node follows it
	Settled    bool   `json:"settled"`  // a majority of the nodes follows it
}

// AcceptGeneration reports that a node follows a generation from now on.
type AcceptGeneration struct {
	BootID     string `json:"boot_id"`
	Generation string `json:"generation"`
	// Known lists the workers known to the node, as job.attempt.worker: each runs there, or has
	// left a result, output or a checkpoint.
	Known []string `json:"known"`
	// Live lists the workers whose containers or results are on the node.
	Live []string `json:"live"`
}

// RegisterRequest is a node's inventory.
type RegisterRequest struct {
	Node model.Node `json:"node"`
}

// RegisterResponse confirms that the inventory is in the log.
type RegisterResponse struct {
	ClusterName string `json:"cluster_name"`
}

// NodeAllocs is everything that should exist on one node. Anything else should not exist.
type NodeAllocs struct {
	Index uint64 `json:"index"`
	// Generation is that of the leader; "" is generation 0
	Generation string        `json:"generation,omitempty"`
	Now        model.Instant `json:"now"` // the log's clock at the time of the leader's answer
	// counted from the time at which the node sent the request; 0 if the leader could not confirm
	// its quorum
	LeaseMS int64   `json:"lease_ms"`
	Allocs  []Alloc `json:"allocs"`
	// Sent identifies this answer, so that the node can send it back: see [Echo]
	Sent string `json:"sent,omitempty"`
	// Witnesses are to be stored by the node before it acts on the answer; nil: the node has them
	Witnesses *Witnesses `json:"witnesses,omitempty"`
	// Unread are workers of Allocs that this version of the node daemon cannot parse: see
	// UnmarshalJSON.
	Unread []UnreadAlloc `json:"-"`
}

// UnreadAlloc is a worker that cannot be parsed completely. Its stop is nil if that is in the
// unreadable part.
type UnreadAlloc struct {
	Job     model.JobID `json:"job"`
	Attempt int         `json:"attempt"`
	Worker  int         `json:"worker"`
	Stop    *model.Stop `json:"stop"`
	Err     error       `json:"-"`
}

// UnmarshalJSON parses the workers one by one: an unreadable worker goes to Unread and does not
// block the others. An answer with a worker without an id is refused, because it leaves open what
// should exist.
func (n *NodeAllocs) UnmarshalJSON(b []byte) error {
	type plain NodeAllocs // a type without this method
	rows := struct {
		*plain
		Allocs []json.RawMessage `json:"allocs"`
	}{plain: (*plain)(n)}
	if err := json.Unmarshal(b, &rows); err != nil {
		return err
	}
	n.Allocs, n.Unread = make([]Alloc, 0, len(rows.Allocs)), nil
	for _, row := range rows.Allocs {
		var a Alloc
		err := json.Unmarshal(row, &a)
		if err == nil {
			n.Allocs = append(n.Allocs, a)
			continue
		}
		var u UnreadAlloc
		if json.Unmarshal(row, &u) != nil {
			u.Stop = nil
			id := struct {
				Job             model.JobID
				Attempt, Worker int
			}{}
			_ = json.Unmarshal(row, &id) // on error the ids stay 0
			u.Job, u.Attempt, u.Worker = id.Job, id.Attempt, id.Worker
		}
		if u.Job <= 0 || u.Attempt <= 0 {
			return fmt.Errorf("a worker without an id: %w", err)
		}
		u.Err = err
		n.Unread = append(n.Unread, u)
	}
	return nil
}

// Alloc is a worker that a node should run, or should be stopping.
type Alloc struct {
	Job        model.JobID     `json:"job"`
	Attempt    int             `json:"attempt"`
	Worker     int             `json:"worker"`
	Joined     int             `json:"joined,omitempty"` // copied to [model.WorkerReport.Joined]
	GPUs       []int           `json:"gpus,omitempty"`   // indices into the node's inventory
	Request    model.Request   `json:"request"`
	Released   bool            `json:"released"` // the command may start
	Stop       *model.Stop     `json:"stop,omitempty"`
	Limit      jobspec.Seconds `json:"limit,omitempty"` // time limit of the attempt, for ROTA_ and SLURM_JOB_END_TIME
	Owner      model.Identity  `json:"owner"`
	Spec       *jobspec.Job    `json:"spec"`
	Account    string          `json:"account"`
	Queue      string          `json:"queue"`
	Class      jobspec.Class   `json:"class"`
	Nodes      []string        `json:"nodes"`             // node of every worker, by worker index
	Members    []AllocNode     `json:"members,omitempty"` // the same nodes, each once
	MasterAddr string          `json:"master_addr"`       // address of worker 0's node
	MasterPort int             `json:"master_port"`
	Restarts   int             `json:"restarts"` // number of earlier attempts
	// NoLease says that its containers keep running while no controller answers, see
	// [model.Attempt.Waits].
	NoLease bool `json:"no_lease,omitempty"`
	// from the end of the lease to the kill: well before another attempt may start
	LeaseGrace int64        `json:"lease_grace_ms"`
	Start      model.UnixMS `json:"start"` // wall-clock time of the assignment, for display
	Cluster    string       `json:"cluster"`

	Group       int `json:"group,omitempty"`        // index of its group in Spec.Groups
	GroupWorker int `json:"group_worker,omitempty"` // index of the worker in its group
	// in a gang of several groups: the places of its workers, group by group
	Hosts  []GroupHosts `json:"hosts,omitempty"`
	Array  *ArrayPlace  `json:"array,omitempty"`  // of an array task
	Record model.JobID  `json:"record,omitempty"` // the array or pipeline job that this one is a member of
	Port   int          `json:"port,omitempty"`   // port of this worker, in a gang of several groups

	// Began: the node has reported that the worker runs. A node that does not know such a worker
	// has lost it, and must not launch it again.
	Began bool `json:"began,omitempty"`

	// Early tells the worker that its time limit is near; nil: not yet, or not requested.
	Early *Early `json:"early,omitempty"`

	// Switch is the latest command to pause or to continue; nil: there was none. Only nodes that
	// announce suspend support receive it.
	Switch *Switch `json:"switch,omitempty"`
	// Packing is the worker's share of a GPU that others use too; nil: it does not share.
	Packing *Packing `json:"packing,omitempty"`

	// Submitted is the wall-clock time of the job's submission. It distinguishes a job from an
	// earlier one with the same id, before a restore.
	Submitted model.UnixMS `json:"submitted"`
	// Checkpoint is the location of the worker's folder, for a job that saves on its nodes. It is
	// nil if the worker never ran, or if the node with its folder is down.
	Checkpoint *CheckpointSource `json:"checkpoint,omitempty"`
}

// AllocNode is a node of an attempt, as registered.
type AllocNode struct {
	Name string `json:"name"`
	Addr string `json:"addr"`         // host:port of its daemon
	IP   string `json:"ip,omitempty"` // address for jobs on other nodes
}

// NodeLocal reports whether the worker keeps a folder on its node.
func (a *Alloc) NodeLocal() bool {
	return a.Spec != nil && a.Spec.Checkpoint.OnNode()
}

// SavesProcesses reports whether the worker's processes are saved (by CRIU) when it must stop.
func (a *Alloc) SavesProcesses() bool { return a.NodeLocal() && a.Spec.Checkpoint.Criu }

// RunsSteps reports whether the job's programs may start steps in the worker.
func (a *Alloc) RunsSteps() bool {
	return a.Spec != nil && a.Group < len(a.Spec.Groups) && a.Spec.Groups[a.Group].RunsSteps()
}

// Holds reports whether the worker only runs steps; the program of the attempt's first worker
// starts them.
func (a *Alloc) Holds() bool { return a.Worker > 0 && a.RunsSteps() }

// First returns the node of the attempt's first worker, or "" if unknown.
func (a *Alloc) First() string {
	nodes := a.Nodes
	if len(a.Hosts) > 0 {
		nodes = a.Hosts[0].Nodes
	}
	if len(nodes) == 0 {
		return ""
	}
	return nodes[0]
}

// CheckpointSource is the last attempt in which a worker ran, and its node.
type CheckpointSource struct {
	Attempt int    `json:"attempt"`
	Node    string `json:"node"`
	Addr    string `json:"addr"` // address of the node's daemon
}

// CheckpointCopy allows a node to copy a worker's folder.
type CheckpointCopy struct {
	Attempt   int          `json:"attempt"` // attempt that needs the folder
	Submitted model.UnixMS `json:"submitted"`
}

// KeptCheckpoints names folders that a node keeps, as job.attempt.worker.
type KeptCheckpoints struct {
	BootID string   `json:"boot_id"`
	IDs    []string `json:"ids"`
}

// DroppedCheckpoints names the folders that no attempt needs any more.
type DroppedCheckpoints struct {
	IDs []string `json:"ids"`
	// Unknown are folders of jobs or attempts that the controllers do not know, for example after a
	// restore. The node keeps them until an admin decides.
	Unknown []string `json:"unknown,omitempty"`
}

// KeptPath is the route by which a node daemon reports its kept folders to controllers.
const KeptPath = "/v1/kept"

// KeptFolders are checkpoint folders that a node keeps although the controllers do not know their
// jobs or attempts.
type KeptFolders struct {
	Items []KeptFolder `json:"items"`
}

// KeptFolder is one such folder.
type KeptFolder struct {
	ID    string    `json:"id"` // job.attempt.worker
	Path  string    `json:"path,omitempty"`
	Since time.Time `json:"since"`
	Until time.Time `json:"until"` // time at which the node removes it by itself
}

// DropFolders names kept folders to remove now.
type DropFolders struct {
	IDs []string `json:"ids"`
}

// Early is the notice and signal that a worker gets once, before its time limit or deadline. It is
// no request to stop.
type Early struct {
	Limit  model.Instant `json:"limit"`  // end of the worker's time, on the log's clock
	Signal string        `json:"signal"` // such as SIGUSR1
}

// Switch tells a worker to pause and release its cores and GPUs, or to continue with the GPUs of
// its allocation. Once that is done, the node reports the number ([model.WorkerReport.Switch]).
type Switch struct {
	Number int         `json:"number"`
	Pause  bool        `json:"pause"`
	Cause  model.Cause `json:"cause,omitempty"` // cause of the last suspension
}

// Packing is a worker's share of a GPU. The node reports the worker's rate under the number
// ([model.WorkerReport.Packed]).
type Packing struct {
	Share  int64 `json:"share"` // thousandths of the GPU
	Number int   `json:"number"`
}

// GroupHosts is the places of one group's workers, by number in the group.
type GroupHosts struct {
	Group string   `json:"group"`
	Nodes []string `json:"nodes"`
	Addrs []string `json:"addrs"` // addresses of the nodes
	Ports []int    `json:"ports"` // ports of the workers
	// resources of the workers for steps, for a group that runs steps
	Has []model.Vector `json:"has,omitempty"`
}

// ReportRequest is what changed on a node. The leader keeps samples; they never enter the log.
type ReportRequest struct {
	BootID  string               `json:"boot_id"`
	Workers []model.WorkerReport `json:"workers,omitempty"`
	Samples []Sample             `json:"samples,omitempty"`
	Steps   []model.StepReport   `json:"steps,omitempty"` // ended steps
}

// ReportResponse confirms that the reports are in the log.
type ReportResponse struct {
	Index   uint64   `json:"index"`
	Refused []string `json:"refused,omitempty"` // errors of rows that were refused or changed
}

// Sample is the newest line of a worker's progress file.
type Sample struct {
	Job     model.JobID        `json:"job"`
	Attempt int                `json:"attempt"`
	Worker  int                `json:"worker"`
	Step    int64              `json:"step"`
	Saved   int64              `json:"saved_step,omitempty"`
	Metrics map[string]float64 `json:"metrics,omitempty"`
	Reached *Reached           `json:"reached,omitempty"` // for an array with stop: in every sample once it is known
	// mistake in the file, which is ignored; in every later sample, whose step is 0 if no line was
	// good
	Problem string `json:"problem,omitempty"`
}

// Reached is the value that array.stop compares: the metric in the first line at or after its step.
type Reached struct {
	Step  int64   `json:"step"`
	Value float64 `json:"value"`
}
