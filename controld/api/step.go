package api

import (
	"github.com/rota-hpc/rota/controld/api/stream"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// Steps of a job are programs that run inside its allocation, as srun starts them. The node of the
// job's first worker numbers them and starts them, on all nodes of the job.
//
//	POST /v1/steps               StepRequest -> a stream, see package stream      at the socket of a job
//	GET  /v1/steps               StepList                                         those that wait or run
//	POST /v1/steps/{n}/attach    StepAttach -> a stream
//	POST /v1/steps/{n}/signal    StepSignal
//
// Controllers pass the same requests on to that node, below /v1/jobs/{id}.

// StepRequest asks for a step. Zero fields mean the same as for the job.
type StepRequest struct {
	// Key names the request by a word of the client. A request that is sent again after a lost
	// connection then does not start a second step; without a key it does. Without one it does.
	Key string `json:"key,omitempty"`
	// Acks: the client acknowledges the output that it has received, so that a lost connection
	// loses nothing. It does so by frames [stream.Ack] whose task is the index of a node of the
	// step.
	Acks bool `json:"acks,omitempty"`
	// Losses: the client says how much output it could not write, by frames [stream.Lost], and then
	// closes the connection.
	Losses bool `json:"losses,omitempty"`

	Name     string        `json:"name,omitempty"` // default: the command's
	Programs []StepProgram `json:"programs"`       // one for all tasks, or with Tasks one for some of them each
	Env      []string      `json:"env"`            // NAME=VALUE
	Workdir  string        `json:"workdir,omitempty"`
	Umask    jobspec.Umask `json:"umask,omitempty"` // of the command that asks

	// Group is the number of the job's group that the step runs in, of several that start together.
	// The request's nodes, tasks and amounts are about that group.
	Group int `json:"group,omitempty"`
	// More are parts of the step in other groups, whose tasks follow in number. Without Env they have that of
	// the first. Only what each part can have for itself may be set: all fields down to Exact, but Overlap.
	More []StepRequest `json:"more,omitempty"`

	Nodes        int      `json:"nodes,omitempty"`    // how many of the job's nodes
	Relative     int      `json:"relative,omitempty"` // the first of them, counted from 0
	NodeList     []string `json:"node_list,omitempty"`
	Exclude      []string `json:"exclude,omitempty"`
	Tasks        int      `json:"tasks,omitempty"` // on all nodes
	TasksPerNode int      `json:"tasks_per_node,omitempty"`
	Cyclic       bool     `json:"cyclic,omitempty"` // tasks are dealt out to the nodes in turn

	CoresPerTask  int           `json:"cores_per_task,omitempty"`
	Memory        jobspec.Bytes `json:"memory,omitempty"`          // on each node
	MemoryPerCore jobspec.Bytes `json:"memory_per_core,omitempty"` // in place of Memory
	GPUs          int           `json:"gpus,omitempty"`            // on all nodes; -1: none
	GPUsPerNode   int           `json:"gpus_per_node,omitempty"`   // in place of GPUs
	GPUsPerTask   int           `json:"gpus_per_task,omitempty"`   // in place of GPUs; each task sees its own

	CoresPerGPU int `json:"cores_per_gpu,omitempty"` // in place of CoresPerTask, for the GPUs that it has on a node

	// Overlap: it shares what other steps hold. Else its cores, GPUs and memory are its own until it ends,
	// and it waits until they are free. Exact: it gets no more cores than its tasks need.
	Overlap bool `json:"overlap,omitempty"`
	Exact   bool `json:"exact,omitempty"`
	// Overcommit: more tasks than cores may run, which then share them.
	Overcommit bool `json:"overcommit,omitempty"`
	// NoWait: it is refused if it cannot start at once.
	NoWait bool `json:"no_wait,omitempty"`
	// EndsJob: the job ends with the step if its client is gone for good. Else the client ends it.
	EndsJob bool `json:"ends_job,omitempty"`

	Terminal  *TerminalSize   `json:"terminal,omitempty"` // its first task has a terminal of this size
	Stdin     string          `json:"stdin,omitempty"`    // all (default), none, or the number of a task
	KillOnBad bool            `json:"kill_on_bad_exit,omitempty"`
	Wait      jobspec.Seconds `json:"wait,omitempty"`       // from the first task's end to a kill of the others; 0: never
	TimeLimit jobspec.Seconds `json:"time_limit,omitempty"` // 0: the job's
}

// StepProgram is what tasks of a step run.
type StepProgram struct {
	Tasks []int    `json:"tasks,omitempty"` // empty: all that no other program names
	Argv  []string `json:"argv"`
}

// TerminalSize is the size of a terminal, in characters.
type TerminalSize struct {
	Rows    uint16 `json:"rows"`
	Columns uint16 `json:"columns"`
}

// StepBegun is what is known of a step when its tasks start.
type StepBegun struct {
	Job     model.JobID `json:"job"`
	Attempt int         `json:"attempt"`
	Step    int         `json:"step"`
	Nodes   []string    `json:"nodes"`
	Tasks   []int       `json:"tasks"` // on each of the nodes
	// Cyclic: they were dealt out to the nodes in turn, one to each that has not all of its tasks. Else
	// their numbers follow the nodes.
	Cyclic bool `json:"cyclic,omitempty"`
	// Parts says how many of the nodes each of several groups has: tasks are numbered group by group. Empty:
	// all are of one group.
	Parts []int `json:"parts,omitempty"`
}

// TaskNodes returns on which of the nodes each task is.
func (b *StepBegun) TaskNodes() []int {
	parts := b.Parts
	if len(parts) == 0 {
		parts = []int{len(b.Tasks)}
	}
	var nodes []int
	first := 0
	for _, n := range parts {
		last := min(first+max(n, 0), len(b.Tasks))
		for _, node := range taskNodes(b.Tasks[first:last], b.Cyclic) {
			nodes = append(nodes, first+node)
		}
		first = last
	}
	return nodes
}

// taskNodes returns on which node each task of one group is, as they follow from how many a node has.
func taskNodes(counts []int, cyclic bool) []int {
	var nodes []int
	if !cyclic {
		for i, n := range counts {
			for range n {
				nodes = append(nodes, i)
			}
		}
		return nodes
	}
	for turn := 0; ; turn++ {
		before := len(nodes)
		for i, n := range counts {
			if turn < n {
				nodes = append(nodes, i)
			}
		}
		if len(nodes) == before {
			return nodes
		}
	}
}

// StepTaskExit is how one task of a step has ended.
type StepTaskExit = stream.StepTaskExit

// StepEnd is how a step has ended: by the highest code and signal of its tasks.
type StepEnd = stream.StepEnd

// StepAttach goes on to read the output of a step, in place of the client that has asked for it. Without a
// client a step is killed after 10 s.
type StepAttach struct {
	// From is how much of the output of each node was received, in the order of the nodes. It is
	// the sum of the frames' counts, see [stream.Frame.Counts]. Missing: nothing.
	From []int64 `json:"from,omitempty"`
	Acks bool    `json:"acks,omitempty"` // as in [StepRequest]
	// Losses is as in [StepRequest].
	Losses bool `json:"losses,omitempty"`
	// Watch looks on beside that client: at the last 64 KiB that the tasks have written, and at what comes.
	// Nothing is sent but what the tasks write and how they end.
	Watch bool `json:"watch,omitempty"`
}

// StepSignal is a signal to all tasks of a step.
type StepSignal struct {
	Signal string `json:"signal"` // such as SIGTERM
}

// StepTimedOut is why a step has ended that ran for as long as it may.
const StepTimedOut = "its time limit was reached"

// StepList lists the steps of a job that wait or run.
type StepList struct {
	Items []StepStatus `json:"items"`
}

// StepStatus is a step that waits or runs.
type StepStatus struct {
	StepBegun
	Name    string       `json:"name"`
	Cores   int          `json:"cores,omitempty"` // on all nodes
	GPUs    int          `json:"gpus,omitempty"`
	Waits   string       `json:"waits,omitempty"` // what for; "": it runs
	Started model.UnixMS `json:"started,omitempty"`

	TimeLimit jobspec.Seconds `json:"time_limit,omitempty"` // 0: the job's
}
