package api

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// The protocol between a node daemon and the controllers. A node talks to any controller; followers
// pass it on to the leader.
//
//	POST /v1/nodes/{name}/register   RegisterRequest -> RegisterResponse   at start, and when the inventory changes
//	GET  /v1/nodes/{name}/allocs     ?boot_id=&after=INDEX&wait=10s -> NodeAllocs   long poll; renews the lease
//	POST /v1/nodes/{name}/report     ReportRequest -> ReportResponse       changes only, in batches

// HeaderGeneration carries the generation of the cluster that the sender follows, NUMBER-ID. Without
// it that is generation 0.
const HeaderGeneration = "Rota-Generation"

// Generation is that of a controller, as it tells a node. The node may follow it.
type Generation struct {
	Generation string `json:"generation"`
	Accepted   bool   `json:"accepted"` // the log has that the node follows it
	Settled    bool   `json:"settled"`  // a majority of the nodes does
}

// AcceptGeneration says that a node follows a generation from now on.
type AcceptGeneration struct {
	BootID     string `json:"boot_id"`
	Generation string `json:"generation"`
	// Known are the workers that the node knows of, as job.attempt.worker: each runs there, or
	// has left a result, output or a checkpoint.
	Known []string `json:"known"`
	// Live are those whose containers are here, or whose results.
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
	Now        model.Instant `json:"now"` // the log's clock when the leader answered
	// counted from when the node sent the request; 0 when the leader could not confirm its quorum
	LeaseMS int64   `json:"lease_ms"`
	Allocs  []Alloc `json:"allocs"`
	// Sent names this answer, for the node to send it back: see [Echo]
	Sent string `json:"sent,omitempty"`
	// Witnesses are those that the node has to store before it acts on the answer; nil: it has them
	Witnesses *Witnesses `json:"witnesses,omitempty"`
	// Unread are workers of Allocs that this version of the node daemon cannot read: see UnmarshalJSON.
	Unread []UnreadAlloc `json:"-"`
}

// UnreadAlloc is a worker of an answer that cannot be read as a whole. Its stop is nil if that is part of
// what cannot be read.
type UnreadAlloc struct {
	Job     model.JobID `json:"job"`
	Attempt int         `json:"attempt"`
	Worker  int         `json:"worker"`
	Stop    *model.Stop `json:"stop"`
	Err     error       `json:"-"`
}

// UnmarshalJSON reads the workers one by one: one that cannot be read is in Unread and holds up no other.
// An answer with a worker without an id is refused, since it does not say what should not exist.
func (n *NodeAllocs) UnmarshalJSON(b []byte) error {
	type plain NodeAllocs // without this method
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
			_ = json.Unmarshal(row, &id) // else the ids stay 0
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

// Alloc is one worker that a node should run, or be stopping.
type Alloc struct {
	Job        model.JobID     `json:"job"`
	Attempt    int             `json:"attempt"`
	Worker     int             `json:"worker"`
	Joined     int             `json:"joined,omitempty"` // for its [model.WorkerReport.Joined]
	GPUs       []int           `json:"gpus,omitempty"`   // indices into the node's inventory
	Request    model.Request   `json:"request"`
	Released   bool            `json:"released"` // the command may start
	Stop       *model.Stop     `json:"stop,omitempty"`
	Limit      jobspec.Seconds `json:"limit,omitempty"` // of the attempt, for ROTA_ and SLURM_JOB_END_TIME
	Owner      model.Identity  `json:"owner"`
	Spec       *jobspec.Job    `json:"spec"`
	Account    string          `json:"account"`
	Queue      string          `json:"queue"`
	Class      jobspec.Class   `json:"class"`
	Nodes      []string        `json:"nodes"`             // of every worker, by worker index
	Members    []AllocNode     `json:"members,omitempty"` // those nodes, each once
	MasterAddr string          `json:"master_addr"`       // address of worker 0's node
	MasterPort int             `json:"master_port"`
	Restarts   int             `json:"restarts"` // attempts before this one
	// NoLease says that its containers go on for as long as no controller answers, see [model.Attempt.Waits].
	NoLease bool `json:"no_lease,omitempty"`
	// from the lease's end to the kill: well before another attempt may start
	LeaseGrace int64        `json:"lease_grace_ms"`
	Start      model.UnixMS `json:"start"` // wall clock of the assignment, for display
	Cluster    string       `json:"cluster"`

	Group       int `json:"group,omitempty"`        // index of its group in Spec.Groups
	GroupWorker int `json:"group_worker,omitempty"` // its number among the group's workers
	// of a gang of several groups: where its workers are, group by group
	Hosts  []GroupHosts `json:"hosts,omitempty"`
	Array  *ArrayPlace  `json:"array,omitempty"`  // of an array task
	Record model.JobID  `json:"record,omitempty"` // the array or pipeline job that this one is a member of
	Port   int          `json:"port,omitempty"`   // of this worker, in a gang of several groups

	// Began: the node has reported that the worker runs. A node that knows nothing of it has lost it, and does not
	// launch it again.
	Began bool `json:"began,omitempty"`

	// Early tells the worker that its time limit comes; nil: that is not due, or not asked for.
	Early *Early `json:"early,omitempty"`

	// Switch is the last command to pause or to go on; nil: there was none. Only nodes that announce
	// that they can suspend get one.
	Switch *Switch `json:"switch,omitempty"`
	// Packing is how the worker shares its GPU while others run there; nil: it has it for itself.
	Packing *Packing `json:"packing,omitempty"`

	// Submitted is the wall clock at which the job was submitted. It tells a node a job from another
	// one that had its id before a restore.
	Submitted model.UnixMS `json:"submitted"`
	// Checkpoint is the place of the worker's folder, for a job that keeps it on its nodes. It is
	// nil if the worker never ran, or if the node with its folder is down.
	Checkpoint *CheckpointSource `json:"checkpoint,omitempty"`
}

// AllocNode is a node of an attempt, as it has registered.
type AllocNode struct {
	Name string `json:"name"`
	Addr string `json:"addr"`         // host:port of its daemon
	IP   string `json:"ip,omitempty"` // by which jobs on other nodes reach it
}

// NodeLocal reports whether the worker keeps a folder on its node.
func (a *Alloc) NodeLocal() bool {
	return a.Spec != nil && a.Spec.Checkpoint.OnNode()
}

// SavesProcesses reports whether the worker's processes are saved when it has to leave.
func (a *Alloc) SavesProcesses() bool { return a.NodeLocal() && a.Spec.Checkpoint.Criu }

// RunsSteps reports whether programs of the job may start steps in the worker.
func (a *Alloc) RunsSteps() bool {
	return a.Spec != nil && a.Group < len(a.Spec.Groups) && a.Spec.Groups[a.Group].RunsSteps()
}

// Holds reports whether the worker runs no program but steps: in an attempt the program of the first
// worker starts all of them.
func (a *Alloc) Holds() bool { return a.Worker > 0 && a.RunsSteps() }

// First returns the node of the attempt's first worker, "" if that is not known.
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

// CheckpointSource is the last attempt in which a worker ran, and the node on which it did.
type CheckpointSource struct {
	Attempt int    `json:"attempt"`
	Node    string `json:"node"`
	Addr    string `json:"addr"` // of the node's daemon
}

// CheckpointCopy says that a node may copy a worker's folder.
type CheckpointCopy struct {
	Attempt   int          `json:"attempt"` // that it is for
	Submitted model.UnixMS `json:"submitted"`
}

// KeptCheckpoints names folders that a node keeps, as job.attempt.worker.
type KeptCheckpoints struct {
	BootID string   `json:"boot_id"`
	IDs    []string `json:"ids"`
}

// DroppedCheckpoints names those of them that no attempt needs any more.
type DroppedCheckpoints struct {
	IDs []string `json:"ids"`
	// Unknown are folders of jobs or attempts that the controllers do not know, as after a restore of
	// an older state. The node keeps them until an admin decides.
	Unknown []string `json:"unknown,omitempty"`
}

// KeptPath is the route at which a node daemon tells controllers of the folders that it keeps.
const KeptPath = "/v1/kept"

// KeptFolders are the checkpoint folders that a node keeps although the controllers do not know their
// jobs or attempts.
type KeptFolders struct {
	Items []KeptFolder `json:"items"`
}

// KeptFolder is one of them.
type KeptFolder struct {
	ID    string    `json:"id"` // job.attempt.worker
	Path  string    `json:"path,omitempty"`
	Since time.Time `json:"since"`
	Until time.Time `json:"until"` // when the node removes it by itself
}

// DropFolders names kept folders that are to be removed now.
type DropFolders struct {
	IDs []string `json:"ids"`
}

// Early is the notice and the signal that a worker gets once, before its time limit or deadline. It is not being
// stopped by that.
type Early struct {
	Limit  model.Instant `json:"limit"`  // when its time is over, on the log's clock
	Signal string        `json:"signal"` // such as SIGUSR1
}

// Switch tells a worker to pause, and give its cores and GPUs back, or to go on with the GPUs of
// its allocation. The node reports the number ([model.WorkerReport.Switch]) when that is done.
type Switch struct {
	Number int         `json:"number"`
	Pause  bool        `json:"pause"`
	Cause  model.Cause `json:"cause,omitempty"` // why it was last suspended
}

// Packing is a worker's part of a GPU. The node reports the rate of the worker under the number
// ([model.WorkerReport.Packed]).
type Packing struct {
	Share  int64 `json:"share"` // thousandths of the GPU
	Number int   `json:"number"`
}

// GroupHosts is where the workers of one group are, by number in the group.
type GroupHosts struct {
	Group string   `json:"group"`
	Nodes []string `json:"nodes"`
	Addrs []string `json:"addrs"` // of the nodes
	Ports []int    `json:"ports"` // of the workers
	// what the workers have for steps, of a group that runs steps
	Has []model.Vector `json:"has,omitempty"`
}

// ReportRequest says what changed on a node. Samples are kept by the leader and never logged.
type ReportRequest struct {
	BootID  string               `json:"boot_id"`
	Workers []model.WorkerReport `json:"workers,omitempty"`
	Samples []Sample             `json:"samples,omitempty"`
	Steps   []model.StepReport   `json:"steps,omitempty"` // that have ended
}

// ReportResponse confirms that the reports are in the log.
type ReportResponse struct {
	Index   uint64   `json:"index"`
	Refused []string `json:"refused,omitempty"` // what is wrong with rows that were not taken as they were
}

// Sample is the newest line of a worker's progress file.
type Sample struct {
	Job     model.JobID        `json:"job"`
	Attempt int                `json:"attempt"`
	Worker  int                `json:"worker"`
	Step    int64              `json:"step"`
	Saved   int64              `json:"saved_step,omitempty"`
	Metrics map[string]float64 `json:"metrics,omitempty"`
	Reached *Reached           `json:"reached,omitempty"` // of an array with stop: from then on in every sample
	// what was bad of the file and is ignored; from then on in every sample, of which one without a good
	// line has step 0
	Problem string `json:"problem,omitempty"`
}

// Reached is what array.stop compares: the metric in the first line at or after its step.
type Reached struct {
	Step  int64   `json:"step"`
	Value float64 `json:"value"`
}
