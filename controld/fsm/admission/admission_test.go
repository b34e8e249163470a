package admission

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/jobspec"
)

func spec(edit ...func(*jobspec.Job)) *jobspec.Job {
	s := &jobspec.Job{Name: "j", Groups: []jobspec.Group{{Name: "main", Count: 2, Tasks: []jobspec.Task{{Name: "main",
		Command: []string{"true"}, Resources: jobspec.Resources{Cores: 1, Memory: jobspec.GiB, GPUs: 1}}}}}}
	for _, e := range edit {
		e(s)
	}
	return s
}

func TestSpecsThatNoClusterCanCarryOut(t *testing.T) {
	no, yes := false, true
	for _, c := range []struct {
		name string
		spec *jobspec.Job
		want string // "": it is taken
	}{
		{"a plain one", spec(), ""},
		{"none", nil, "missing"},
		{"one that breaks a rule", spec(func(s *jobspec.Job) { s.Groups = nil }), "group"},
		{"a gang", spec(func(s *jobspec.Job) { s.Groups[0].Gang = &yes }), ""},
		{"no gang", spec(func(s *jobspec.Job) { s.Groups[0].Gang = &no }), "gang = false"},
		{"no gang of one worker", spec(func(s *jobspec.Job) { s.Groups[0].Gang, s.Groups[0].Count = &no, 1 }), ""},
		{"half a GPU", spec(func(s *jobspec.Job) {
			s.Groups[0].Tasks[0].Resources.GPU = &jobspec.GPU{Share: 500}
		}), ""},
		{"a part of two GPUs", spec(func(s *jobspec.Job) {
			s.Groups[0].Tasks[0].Resources.GPUs, s.Groups[0].Tasks[0].Resources.GPU = 2, &jobspec.GPU{Share: 500}
		}), "share"},
	} {
		err := CheckSpec(c.spec)
		if spec := (*model.SpecError)(nil); c.want != "" && !errors.As(err, &spec) {
			t.Errorf("%s: %v", c.name, err)
		}
		if c.want == "" && err != nil || c.want != "" && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

func TestQueuesHaveLimits(t *testing.T) {
	all := cluster.Queue{MaxTime: 100, TEMaxTime: 50, TEMaxGPUs: 4}
	for _, c := range []struct {
		name  string
		queue cluster.Queue
		class jobspec.Class
		limit jobspec.Seconds
		gpus  int64 // thousandths of each of two workers
		want  string
	}{
		{"within all", all, jobspec.BE, 100, 8000, ""},
		{"too long", all, jobspec.BE, 101, 1000, "time_limit in queue q"},
		{"too long, whatever its class", all, jobspec.TE, 101, 1000, "time_limit in queue q"},
		{"te within all", all, jobspec.TE, 50, 2000, ""},
		{"te too long", all, jobspec.TE, 51, 1000, "time_limit of a te job"},
		{"te too large", all, jobspec.TE, 50, 3000, "GPUs of a te job"},
		{"te of parts", all, jobspec.TE, 50, 500, ""},
		{"te of parts that are rounded up", cluster.Queue{TEMaxGPUs: 1}, jobspec.TE, 50, 501, "GPUs of a te job"},
		{"te of parts that fill one", cluster.Queue{TEMaxGPUs: 1}, jobspec.TE, 50, 500, ""},
		{"a queue without limits", cluster.Queue{}, jobspec.TE, 1 << 30, 1 << 30, ""},
		{"a limit of one second", cluster.Queue{MaxTime: 1}, jobspec.BE, 2, 0, "time_limit in queue q"},
		{"a limit of one second for te", cluster.Queue{TEMaxTime: 1}, jobspec.TE, 2, 0, "time_limit of a te job"},
	} {
		j := &model.Job{Spec: spec(), Class: c.class, Limit: c.limit, Workers: 2,
			Request: model.Request{Active: model.Vector{GPUs: c.gpus}}}
		err := CheckQueue(j, "q", &c.queue)
		if limit := (*model.LimitError)(nil); c.want != "" && !errors.As(err, &limit) {
			t.Errorf("%s: %v", c.name, err)
		}
		if c.want == "" && err != nil || c.want != "" && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// TestTheSignalComesBeforeTheQueuesLimit: a job that says no time limit has its queue's.
func TestTheSignalComesBeforeTheQueuesLimit(t *testing.T) {
	for ahead, refused := range map[jobspec.Seconds]bool{0: false, 99: false, 100: true, 101: true} {
		j := &model.Job{Spec: spec(), Limit: 100}
		j.Spec.Checkpoint = &jobspec.Checkpoint{BeforeLimit: ahead}
		err := CheckQueue(j, "q", &cluster.Queue{})
		if (err != nil) != refused || refused && !strings.Contains(err.Error(), "1m40s in queue q") {
			t.Errorf("%v before a limit of 100 s: %v", ahead, err)
		}
	}
}

func TestInventoriesThatTheGridCannotHold(t *testing.T) {
	for _, c := range []struct {
		name string
		edit func(*model.Node)
		want string
	}{
		{"a node", func(*model.Node) {}, ""},
		{"no name", func(n *model.Node) { n.Name = "" }, "name"},
		{"the longest name", func(n *model.Node) { n.Name = strings.Repeat("n", 255) }, ""},
		{"a longer name", func(n *model.Node) { n.Name = strings.Repeat("n", 256) }, "name"},
		{"a name with a space", func(n *model.Node) { n.Name = "n 1" }, "name"},
		{"a name with a slash", func(n *model.Node) { n.Name = "n/1" }, "name"},
		{"no boot id", func(n *model.Node) { n.BootID = "" }, "boot id"},
		{"one core", func(n *model.Node) { n.Cores = 1 }, ""},
		{"no core", func(n *model.Node) { n.Cores = 0 }, "cores"},
		{"the most cores", func(n *model.Node) { n.Cores = jobspec.MaxNodeCores }, ""},
		{"more", func(n *model.Node) { n.Cores = jobspec.MaxNodeCores + 1 }, "cores"},
		{"one byte", func(n *model.Node) { n.Memory = 1 }, ""},
		{"no memory", func(n *model.Node) { n.Memory = 0 }, "memory"},
		{"the most memory", func(n *model.Node) { n.Memory = jobspec.MaxSize }, ""},
		{"more memory", func(n *model.Node) { n.Memory = jobspec.MaxSize + 1 }, "memory"},
		{"the most GPUs", func(n *model.Node) { n.GPUs = make([]model.GPU, 64) }, ""},
		{"more GPUs", func(n *model.Node) { n.GPUs = make([]model.GPU, 65) }, "65 GPUs, at most 64"},
		{"all ports", func(n *model.Node) { n.PortMin, n.PortMax = 0, 65535 }, ""},
		{"one port", func(n *model.Node) { n.PortMin, n.PortMax = 9, 9 }, ""},
		{"a port below 0", func(n *model.Node) { n.PortMin = -1 }, "port"},
		{"a port too high", func(n *model.Node) { n.PortMax = 65536 }, "port"},
		{"ports the wrong way round", func(n *model.Node) { n.PortMin, n.PortMax = 10, 9 }, "port"},
	} {
		n := model.Node{Name: "n1", BootID: "b", Cores: 4, Memory: jobspec.GiB, PortMin: 1, PortMax: 2}
		c.edit(&n)
		err := CheckInventory(&n)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

func TestConfigurationsThatMakeTheStateMisbehave(t *testing.T) {
	queues := func(n int) func(*cluster.Config) {
		return func(c *cluster.Config) {
			c.Queues = map[string]cluster.Queue{}
			for i := range n {
				c.Queues[fmt.Sprint("q", i)] = cluster.Queue{}
			}
		}
	}
	for _, c := range []struct {
		name string
		edit func(*cluster.Config)
		want string
	}{
		{"the default", func(*cluster.Config) {}, ""},
		{"no queue", queues(0), "no queue"},
		{"one queue", queues(1), ""},
		{"no requeue at all", func(c *cluster.Config) {
			c.Queues = map[string]cluster.Queue{"q": {MaxRequeues: new(int)}}
		}, ""},
		{"less than none", func(c *cluster.Config) {
			less := -1
			c.Queues = map[string]cluster.Queue{"q": {MaxRequeues: &less}}
		}, "max_requeues"},
		{"as many as may be", queues(model.MaxQueues), ""},
		{"more", queues(model.MaxQueues + 1), "at most"},
		{"the shortest times", func(c *cluster.Config) { c.LeaseMS, c.MarginMS, c.NodeDownMS = 1, 0, 1 }, ""},
		{"no lease", func(c *cluster.Config) { c.LeaseMS = 0 }, "lease"},
		{"a margin below 0", func(c *cluster.Config) { c.MarginMS = -1 }, "lease"},
		{"nodes are down at once", func(c *cluster.Config) { c.NodeDownMS = 0 }, "node_down"},
		{"jobs below 0", func(c *cluster.Config) { c.MaxSubmitJobs = -1 }, "below 0"},
		{"requests below 0", func(c *cluster.Config) { c.MaxRequests = -1 }, "below 0"},
		{"reads below 0", func(c *cluster.Config) { c.MaxReads = -1 }, "below 0"},
		{"processor time below 0", func(c *cluster.Config) { c.MaxProcessor = -1 }, "below 0"},
		{"a licence", func(c *cluster.Config) { c.Licenses = map[string]int{"a": 0} }, ""},
		{"a licence without a name", func(c *cluster.Config) { c.Licenses = map[string]int{"a b": 1} }, "is named"},
		{"an account of no parent", func(c *cluster.Config) {
			c.Accounts = map[string]cluster.Account{"a": {Parent: "none"}}
		}, "none"},
	} {
		cfg := cluster.DefaultConfig()
		c.edit(&cfg)
		err := CheckConfig(&cfg)
		if c.want != "" && !errors.Is(err, model.ErrBadConfig) {
			t.Errorf("%s: %v", c.name, err)
		}
		if c.want == "" && err != nil || c.want != "" && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}
