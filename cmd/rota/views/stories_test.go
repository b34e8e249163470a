package views

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os/user"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/rotatest"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// impatient makes the client itself give up at once.
var impatient = api.Options{RetryFor: time.Nanosecond, Unreachable: time.Nanosecond}

// refusals are what the API answers instead of a list, with the exit code.
var refusals = map[int]api.Problem{
	exit.Denied: {Title: "Denied", Status: 403, Code: api.CodeDenied, Detail: "you may not see this",
		Hint: "ask an admin"},
	exit.NotFound:    {Title: "Not found", Status: 404, Code: api.CodeNotFound, Detail: "there is no job 7"},
	exit.Unreachable: {Title: "No leader", Status: 503, Code: api.CodeNoLeader, Detail: "there is no leader now"},
}

// TestRefusalsOfViews notices an empty list where there is a refusal, and a refusal without its hint.
func TestRefusalsOfViews(t *testing.T) {
	for code, p := range refusals {
		a := rotatest.NewAnswers(t)
		for _, path := range []string{"jobs", "nodes", "jobs/7", "jobs/7/why", "jobs/7/series", "jobs/7/logs", "history",
			"audit", "shares",
			"events"} {
			a.Refuse("GET /v1/"+path, p)
		}
		s := rotatest.Session{Commands: groups, T: t, Addr: a.URL, ClientOptions: impatient}
		want := "rota: " + p.Detail + "\n"
		if p.Hint != "" {
			want += "  hint: " + p.Hint + "\n"
		}
		for _, args := range []string{"queue", "queue -o json", "queue --tree", "queue -i 1", "nodes", "nodes -s", "status 7",
			"status 7 --plot", "why 7", "logs 7", "logs 7.0", "hist", "audit", "share", "events", "events -f"} {
			got := s.Run(strings.Fields(args)...)
			if strings.HasSuffix(args, "json") {
				var told api.Problem
				if err := json.Unmarshal([]byte(got.Stderr), &told); err != nil || got.Code != code || told.Detail != p.Detail {
					t.Errorf("rota %s: %+v, %v", args, got, err)
				}
				continue
			}
			// The time above the queue stands there before the controller is asked.
			if got.Code != code || got.Stderr != want || got.Stdout != "" && args != "queue -i 1" {
				t.Errorf("rota %s: %+v, want %d %q", args, got, code, want)
			}
		}
	}
}

// TestWrongViewsAskNothing notices an option that is ignored, and one that is found wrong only after
// the controllers were asked.
func TestWrongViewsAskNothing(t *testing.T) {
	a := rotatest.NewAnswers(t)
	s := rotatest.Session{Commands: groups, T: t, Addr: a.URL}
	for _, c := range []struct{ args, want string }{
		{"queue --me --user nobody-of-this-name", "--me and --user nobody-of-this-name exclude each other"},
		{"hist --me --user nobody-of-this-name", "--me and --user nobody-of-this-name exclude each other"},
		{"audit --me --user nobody-of-this-name", "--me and --user nobody-of-this-name exclude each other"},
		{"cancel --me --user nobody-of-this-name", "--me and --user nobody-of-this-name exclude each other"},
		{"queue --nodes=", "--nodes is empty"}, {"queue --nodes gpu[", "gpu["}, {"queue --iterate=", "--iterate is empty"},
		{"queue -i soon", "-i soon: must be a number of seconds from 0.1 to 86400"}, {"queue -j x", "\"x\" is not a job id"},
		{"queue -i 86401", "-i 86401: must be a number"}, {"nodes --nodes=", "--nodes is empty"},
		{"nodes -w gpu[3-1]", "gpu[3-1]"}, {"hist --limit 0", "--limit 0: must be at least 1"},
		{"hist --limit -1", "--limit -1: must be at least 1"}, {"hist --since never", "\"never\" is not a time"},
		{"hist --until never", "\"never\" is not a time"}, {"hist -j 7,x", "\"x\" is not a job id"},
		{"audit --until never", "\"never\" is not a time"}, {"audit --job=", "--job is empty"},
		{"audit --job 1,2", "--job 1,2: name one job"}, {"audit --job x", "\"x\" is not a job id"},
		{"events --type=", "--type is empty"}, {"events --job=", "--job is empty"}, {"events --node=", "--node is empty"},
		{"events --after -1", "after"}, {"events -j x", "\"x\" is not a job id"}, {"events -w gpu[", "gpu["},
		{"status 7 --metric loss", "--metric needs --plot"}, {"status 7 --plot --metric=", "--metric is empty"},
		{"logs 7 --tail 0", "--tail 0: must be at least 1"}, {"logs 7 --tail -5", "--tail -5: must be at least 1"},
		{"logs 7 --attempt 0", "--attempt 0: must be at least 1"}, {"logs 7 --worker -2", "--worker -2: must be at least 0"},
		{"logs 7.1 --worker 2", "7.1 is worker 1, but --worker says 2"}, {"logs 7,8", "rota logs needs one job"},
		{"logs x.1", "\"x\" is not a job id"},
		{"logs 7 -o yaml", "-o yaml: rota logs prints only plain output"}, {"status", "no job given"}, {"why 1 2",
			"rota why needs one job"}, {"share x", "unexpected argument"},
	} {
		if got := s.Run(strings.Fields(c.args)...); got.Code != exit.Usage || got.Stdout != "" ||
			!strings.HasPrefix(got.Stderr, "rota: ") || !strings.Contains(got.Stderr, c.want) {
			t.Errorf("rota %s: %+v, want %q", c.args, got, c.want)
		}
	}
	if asked := a.Requests(); len(asked) > 0 {
		t.Errorf("asked %+v", asked)
	}
}

// TestWhatIsAskedOfTheAudit notices a filter that is lost, and requests that are missing in silence.
func TestWhatIsAskedOfTheAudit(t *testing.T) {
	a := rotatest.NewAnswers(t)
	entry := api.AuditEntry{At: rotatest.At("2026-11-20T08:00:00Z"), Controller: "c1", Account: "nlp", Token: "0011",
		Action: "POST /v1/jobs", Code: "ok", Times: 1}
	a.Give("GET /v1/audit", api.AuditList{List: rotatest.List("AuditList", slices.Repeat([]api.AuditEntry{entry},
		1000)...)})
	a.Give("GET /v1/jobs/12_4", api.Job{ID: 17})
	s := rotatest.Session{Commands: groups, T: t, Addr: a.URL}
	got := s.Run("audit", "--job", "12_4", "--until", "yesterday", "--utc", "-l")
	if got.Code != 0 || !strings.Contains(got.Stdout, "ACCOUNT TOKEN CONTROLLER\n") ||
		!strings.HasSuffix(got.Stdout, " nlp     0011  c1\n") ||
		got.Stderr != "rota: only the last 1000 requests are shown: use --limit N for more, or --until TIME for "+
			"earlier ones\n" {
		t.Errorf("%d %q %q", got.Code, got.Stderr, got.Stdout[:min(300, len(got.Stdout))])
	}
	asked := a.Requests()
	if what := asked[len(asked)-1].What; what != "GET /v1/audit?job=17&limit=1000&since=2026-11-14T12%3A00%3A00.000Z&"+
		"until=2026-11-20T00%3A00%3A00.000Z" {
		t.Errorf("asked %s", what)
	}
	if got := s.Run("audit", "--limit", "1000"); got.Stderr != "" {
		t.Errorf("as many as were asked for: %s", got.Stderr)
	}
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Run("audit", "--me", "--user", me.Username); got.Code != 0 {
		t.Errorf("--me and oneself: %+v", got)
	}
	asked = a.Requests()
	if what := asked[len(asked)-1].What; !strings.HasSuffix(what, "&user="+me.Username) {
		t.Errorf("--me asked %s", what)
	}
	a.Refuse("GET /v1/jobs/12_5", refusals[exit.NotFound])
	if got := s.Run("audit", "--job", "12_5"); got.Code != exit.NotFound || got.Stdout != "" {
		t.Errorf("an unknown job: %+v", got)
	}
}

// TestNodesOfAKind notices kinds of nodes that are mixed, and GPUs that are counted twice.
func TestNodesOfAKind(t *testing.T) {
	gpus := func(n int, model string) []api.NodeGPU { return slices.Repeat([]api.NodeGPU{{Model: model}}, n) }
	a := rotatest.NewAnswers(t)
	a.Give("GET /v1/nodes", rotatest.List("NodeList",
		api.Node{Name: "cpu01", State: "idle", Cores: 64, Labels: map[string]string{"rack": "a", "disk": "nvme"}},
		api.Node{Name: "gpu01", State: "mix", Cores: 64, GPUs: gpus(8, "H200"), GPUsUsed: 2, CoresUsed: 5},
		api.Node{Name: "gpu02", State: "mix", Cores: 64, GPUs: gpus(8, "H200"), GPUsUsed: 3, CoresUsed: 10},
		api.Node{Name: "gpu03", State: "mix", Cores: 64, GPUs: gpus(8, "A100"), GPUsUsed: 8, CoresUsed: 64},
		api.Node{Name: "gpu04", State: "mix", Cores: 32, GPUs: gpus(8, "A100")},
		api.Node{Name: "gpu05", State: "down", Cores: 64, GPUs: gpus(8, "H200")}))
	s := rotatest.Session{Commands: groups, T: t, Addr: a.URL}
	got := s.Run("nodes", "--summary")
	want := "STATE NODES CPUS GPUS MODEL GPUS(A/T) NODELIST\n" +
		"down      1   64    8 H200        0/8 gpu05\n" +
		"idle      1   64    0             0/0 cpu01\n" +
		"mix       1   64    8 A100        8/8 gpu03\n" +
		"mix       1   32    8 A100        0/8 gpu04\n" +
		"mix       2   64    8 H200       5/16 gpu[01-02]\n"
	if got.Code != 0 || got.Stdout != want {
		t.Errorf("%+v, want\n%s", got, want)
	}
	for args, want := range map[string]string{
		"-w gpu[01,03] --columns name,labels":   "gpu01|gpu03",
		"-w cpu01 --columns name,labels":        "cpu01 disk=nvme,rack=a",
		"--sort cpus -o name":                   "gpu03|gpu04|gpu02|gpu01|cpu01|gpu05",
		"--sort gpus,name -o name":              "cpu01|gpu03|gpu02|gpu01|gpu04|gpu05",
		"-s --filter cores<64 --columns count":  "1",
		"-s -w gpu[04-05] --columns nodelist":   "gpu05|gpu04",
		"--filter state==\"down\" -o name":      "gpu05",
		"-o template={{.name}} --filter gpus_x": "",
	} {
		got := s.Run(append([]string{"nodes", "--no-header"}, strings.Fields(args)...)...)
		var words []string
		for line := range strings.Lines(got.Stdout) {
			words = append(words, strings.Join(strings.Fields(line), " "))
		}
		if text := strings.Join(words, "|"); text != want || (got.Code == exit.OK) != (want != "") {
			t.Errorf("rota nodes %s: %q, %+v", args, text, got)
		}
	}
}

// TestStatusOfEveryKindOfJob notices a kind of job of which something is not shown, or shown for
// another kind.
func TestStatusOfEveryKindOfJob(t *testing.T) {
	four := 4
	a := rotatest.NewAnswers(t)
	for ref, j := range map[string]api.Job{
		"12": {ID: 12, Name: "sweep", Code: model.Running, State: "RUNNING", Flags: []string{"requeued"},
			Array: api.ArrayPlace{Size: 10, Indices: "7-9", Completed: 3, Failed: 2, Cancelled: 1, Live: 1}},
		"12_4": {ID: 16, Name: "sweep", Code: model.Failed, State: "FAILED", ExitCode: 3,
			Ended: rotatest.At("2026-11-21T09:00:00Z"),
			Array: api.ArrayPlace{Job: 12, Index: &four, Params: map[string]string{"lr": "0.1", "bs\x1b": "3\x1b2"}}},
		"20.train": {ID: 21, Name: "nightly", Code: model.Running, State: "RUNNING", Group: &api.GroupPlace{Job: 20,
			Name: "train"}},
		"20": {ID: 20, Name: "nightly", Code: model.Running, State: "RUNNING", Groups: []api.GroupState{
			{Name: "prep", ID: 19, Code: model.Completed, Workers: 1}, {Name: "train", ID: 21, Code: model.Running,
				Workers: 4}}},
		"30": {ID: 30, Name: "ddp", Code: model.Running, State: "RUNNING", Steps: 12, SavedStep: 10,
			Metrics: map[string]float64{"loss": 0.5}, Spec: &jobspec.Job{Groups: []jobspec.Group{{Name: "main",
				Tasks: []jobspec.Task{{Name: "t", Image: "/images/a", Command: []string{"python", "x.py"}}}}}}},
	} {
		a.Give("GET /v1/jobs/"+ref, j)
	}
	s := rotatest.Session{Commands: groups, T: t, Addr: a.URL}
	var all strings.Builder
	for _, args := range []string{"status 12", "status 12_4", "status 20.train", "status 20", "status 30", "show 12 20"} {
		got := s.Run(append(strings.Fields(args), "--utc")...)
		if got.Code != 0 || got.Stderr != "" {
			t.Errorf("rota %s: %+v", args, got)
		}
		all.WriteString("$ rota " + args + "\n" + got.Stdout + "\n")
	}
	rotatest.Golden(t, *update, "status.txt", all.String())
	got := s.Run("status", "12", "20", "-o", "json")
	dec := json.NewDecoder(strings.NewReader(got.Stdout))
	for _, want := range []model.JobID{12, 20} {
		var j api.Job
		if err := dec.Decode(&j); err != nil || j.ID != want {
			t.Errorf("as JSON: %d, %v in %+v", j.ID, err, got)
		}
	}
}

// TestColumnsThatAreSortedByNumbers notices amounts that are in the order of their letters.
func TestColumnsThatAreSortedByNumbers(t *testing.T) {
	a := rotatest.NewAnswers(t)
	jobs := []api.Job{
		{ID: 9, Cores: 8, Memory: 2 << 30, Workers: 1, Nodes: []string{"a"}, Preemptions: api.Preemptions{TE: 1}, Attempt: 10,
			Deadline: rotatest.At("2026-11-22T08:00:00Z")},
		{ID: 10, Cores: 128, Memory: 100 << 20, Workers: 2, Nodes: []string{"a", "b"},
			Preemptions: api.Preemptions{Reclaim: 10},
			Attempt:     9},
		{ID: 111, Cores: 16, Memory: 16 << 30, Workers: 12, Preemptions: api.Preemptions{Order: 2}, Attempt: 1,
			Deadline: rotatest.At("2026-11-21T08:00:00Z")},
	}
	for i := range jobs {
		jobs[i].Code, jobs[i].State = model.Running, "RUNNING"
	}
	a.On("GET /v1/jobs", rotatest.StreamOf(jobs))
	a.Give("GET /v1/shares", rotatest.List("ShareList", api.Share{Account: "a", Share: 90}, api.Share{Account: "b",
		Share: 1000},
		api.Share{Account: "c", Share: 200}))
	s := rotatest.Session{Commands: groups, T: t, Addr: a.URL}
	for args, want := range map[string]string{"queue --sort id": "9 10 111", "queue --sort -cores": "10 111 9",
		"queue --sort memory": "10 9 111", "queue --sort -workers": "111 10 9", "queue --sort nodes": "9 10 111",
		"queue --sort preemptions": "9 111 10", "queue --sort -attempt": "9 10 111", "queue --sort deadline": "10 111 9",
		"queue --sort code,-id": "111 10 9", "share --sort share": "a c b"} {
		got := s.Run(append(strings.Fields(args), "-o", "name")...)
		if text := strings.Join(strings.Fields(got.Stdout), " "); got.Code != 0 || text != want {
			t.Errorf("rota %s: %q, want %q (%s)", args, text, want, got.Stderr)
		}
	}
	got := s.Run("queue", "--no-header", "--columns", "id,cores,memory,preemptions,deadline", "--utc", "--sort", "id")
	if want := "  9   8   2G  1 2026-11-22T08:00:00Z\n 10 128 100M 10\n111  16  16G  2 " +
		"2026-11-21T08:00:00Z\n"; got.Stdout != want {
		t.Errorf("got\n%s\nwant\n%s", got.Stdout, want)
	}
}

// TestJobsOnSomeNodes notices jobs elsewhere that are listed too.
func TestJobsOnSomeNodes(t *testing.T) {
	a := rotatest.NewAnswers(t)
	a.On("GET /v1/jobs", rotatest.StreamOf([]api.Job{{ID: 1, Nodes: []string{"gpu01", "gpu02"}}, {ID: 2,
		Nodes: []string{"gpu03"}},
		{ID: 3}}))
	s := rotatest.Session{Commands: groups, T: t, Addr: a.URL}
	for args, want := range map[string]string{"": "1 2 3", "-w gpu02": "1", "-w gpu[02-03]": "1 2", "-w gpu09": ""} {
		got := s.Run(append([]string{"queue", "-o", "name"}, strings.Fields(args)...)...)
		if text := strings.Join(strings.Fields(got.Stdout), " "); got.Code != 0 || text != want {
			t.Errorf("rota queue %s: %+v", args, got)
		}
	}
}

// TestJobsThatWereNamed notices a job that does not exist and is not reported, and one that is listed
// elsewhere.
func TestJobsThatWereNamed(t *testing.T) {
	a := rotatest.NewAnswers(t)
	running := api.Job{ID: 7, Code: model.Running, State: "RUNNING"}
	ended := api.Job{ID: 3, Code: model.Completed, State: "COMPLETED"}
	a.On("GET /v1/jobs", rotatest.StreamOf([]api.Job{running}))
	a.Give("GET /v1/history", rotatest.List("JobList", ended))
	a.Give("GET /v1/jobs/7", running)
	a.Give("GET /v1/jobs/3", ended)
	a.Refuse("GET /v1/jobs/9", api.Problem{Status: 404, Code: api.CodeNotFound, Detail: "there is no job 9"})
	s := rotatest.Session{Commands: groups, T: t, Addr: a.URL}
	for args, want := range map[string]struct {
		code int
		says string
	}{
		"queue -j 7":          {0, ""},
		"queue -j 7,3":        {0, "rota: job 3 has ended: \"rota hist -j 3\" shows it\n"},
		"queue -j 7,9":        {exit.NotFound, "rota: there is no job 9\n"},
		"queue -j 7,3 -u ada": {0, ""}, // the user may exclude it
		"hist -j 3":           {0, ""},
		"hist -j 3,7":         {0, "rota: job 7 has not ended: \"rota queue -j 7\" shows it\n"},
		"hist -j 9,3":         {exit.NotFound, "rota: there is no job 9\n"},
	} {
		if got := s.Run(strings.Fields(args)...); got.Code != want.code || got.Stderr != want.says || got.Stdout == "" {
			t.Errorf("rota %s: %+v", args, got)
		}
	}
	if got := s.Run("hist", "-j", "3", "-o", "name"); got.Stdout != "3\n" {
		t.Errorf("%+v", got)
	}
	asked := a.Requests()
	if what := asked[len(asked)-1].What; strings.Contains(what, "since=") {
		t.Errorf("a job that is named may be old: %s", what)
	}
}

// TestMoreThanIsShown notices a list that is cut off in silence.
func TestMoreThanIsShown(t *testing.T) {
	a := rotatest.NewAnswers(t)
	page := rotatest.List("JobList", slices.Repeat([]api.Job{{ID: 1, Code: model.Completed}}, 1000)...)
	page.Next = "2"
	a.Give("GET /v1/history", page)
	s := rotatest.Session{Commands: groups, T: t, Addr: a.URL}
	if got := s.Run("hist", "-o", "name"); got.Code != 0 || strings.Count(got.Stdout, "\n") != 1000 ||
		got.Stderr != "rota: only the last 1000 jobs are shown: use --limit N for more\n" {
		t.Errorf("%d lines, %s", strings.Count(got.Stdout, "\n"), got.Stderr)
	}
	if got := s.Run("hist", "-o", "name", "--limit", "1500"); strings.Count(got.Stdout, "\n") != 1500 || got.Stderr != "" {
		t.Errorf("%d lines, %s", strings.Count(got.Stdout, "\n"), got.Stderr)
	}
}

// interruptAfter answers with each in turn, and presses Ctrl-C after the last.
func interruptAfter(t *testing.T, each ...http.HandlerFunc) http.HandlerFunc {
	n := 0
	return func(w http.ResponseWriter, r *http.Request) {
		if n++; n <= len(each) {
			each[n-1](w, r)
			return
		}
		if err := syscall.Kill(syscall.Getpid(), syscall.SIGINT); err != nil {
			t.Error(err)
		}
		<-r.Context().Done()
	}
}

// events is an answer with events up to an index.
func events(index uint64, each ...api.Event) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(api.HeaderIndex, fmt.Sprint(index))
		list := rotatest.List("EventList", each...)
		if list.Index = index; len(each) > 0 {
			list.Index = each[len(each)-1].Index
		}
		_ = json.NewEncoder(w).Encode(list)
	}
}

// TestEventsAreFollowed notices an event that is shown twice or not at all, also while no controller
// answers.
func TestEventsAreFollowed(t *testing.T) {
	noLeader := func(w http.ResponseWriter, _ *http.Request) {
		p := refusals[exit.Unreachable]
		rotatest.WriteProblem(w, &p)
	}
	at := rotatest.At("2026-11-21T08:00:05Z")
	story := func() []http.HandlerFunc {
		return []http.HandlerFunc{
			events(6, api.Event{Index: 4, At: at, Type: "submitted", Job: 7}, api.Event{Index: 5, At: at, Type: "assigned",
				Job: 7}),
			events(6, api.Event{Index: 6, At: at, Type: "submitted", Job: 8}), // the controller sends them in parts
			events(8), // nothing that is an event
			noLeader,
			events(9, api.Event{Index: 9, At: at, Type: "started", Job: 7, Node: "gpu01"}),
		}
	}
	for args, want := range map[string]string{
		"--columns index":          "4\n5\n6\n9\n",
		"--columns index -j 7":     "4\n5\n9\n",
		"--columns index -w gpu01": "9\n",
		"--filter job==8 -o name":  "6\n",
		"-o template={{.type}}":    "submitted\nassigned\nsubmitted\nstarted\n",
		"-o json --type " +
			"started": `{"index":9,"at":"2026-11-21T08:00:05.000Z","type":"started","job":7,"node":"gpu01"}` + "\n",
		"--columns index --after 400": "4\n5\n6\n9\n", // as the controller answers
	} {
		a := rotatest.NewAnswers(t)
		a.On("GET /v1/events", interruptAfter(t, story()...))
		s := rotatest.Session{Commands: groups, T: t, Addr: a.URL, ClientOptions: impatient}
		got := s.Run(append([]string{"events", "-f"}, strings.Fields(args)...)...)
		if got.Code != 0 || got.Stdout != want ||
			got.Stderr != "" { // a long poll outlasts the choice of a leader
			t.Errorf("events -f %s: %+v", args, got)
		}
		var after []string
		for _, r := range a.Requests() {
			_, rest, _ := strings.Cut(r.What, "after=")
			index, _, _ := strings.Cut(rest, "&")
			after = append(after, index)
		}
		wanted := " 5 6 8 8 9"
		if strings.Contains(args, "400") {
			wanted = "400 5 400 400 400 400"
		}
		if text := strings.Join(after, " "); text != wanted {
			t.Errorf("events -f %s asked after %q, want %q", args, text, wanted)
		}
	}
}

// TestTheQueueIsRepeated notices a queue that ends with a controller, and one that cannot be ended.
func TestTheQueueIsRepeated(t *testing.T) {
	list := rotatest.StreamOf([]api.Job{{ID: 7, Code: model.Running, State: "RUNNING"}})
	noLeader := func(w http.ResponseWriter, _ *http.Request) {
		p := refusals[exit.Unreachable]
		rotatest.WriteProblem(w, &p)
	}
	for _, terminal := range []bool{false, true} {
		a := rotatest.NewAnswers(t)
		a.On("GET /v1/jobs", interruptAfter(t, list, noLeader, list))
		s := rotatest.Session{Commands: groups, T: t, Addr: a.URL, ClientOptions: impatient, Terminal: terminal}
		got := s.Run("queue", "-i", "0.1", "--no-header", "--columns", "id", "--utc")
		head := ""
		if terminal {
			head = "\x1b[H\x1b[2J"
		}
		head += "2026-11-21T12:00:00Z\n"
		want := head + "7\n\n" + head + head + "7\n\n" + head
		if got.Code != 0 || got.Stdout != want || strings.Count(got.Stderr, "there is no leader now\n") != 1 {
			t.Errorf("%+v\nwant %q", got, want)
		}
	}
}

// TestWhatLogsAsk notices output of another worker, task, stream or attempt.
func TestWhatLogsAsk(t *testing.T) {
	a := rotatest.NewAnswers(t)
	a.Give("GET /v1/jobs/7", api.Job{ID: 7, Workers: 1, Code: model.Completed, Attempt: 1})
	a.Give("GET /v1/jobs/12_4", api.Job{ID: 17, Workers: 1, Code: model.Completed, Attempt: 1})
	a.Give("GET /v1/jobs/17", api.Job{ID: 17, Workers: 1, Code: model.Completed, Attempt: 1})
	a.Give("GET /v1/jobs/21", api.Job{ID: 21, Workers: 1, Code: model.Completed, Attempt: 1})
	a.Give("GET /v1/jobs/20.train", api.Job{ID: 21, Workers: 1, Code: model.Completed, Attempt: 1})
	for _, id := range []string{"7", "17", "21"} {
		a.On("GET /v1/jobs/"+id+"/logs", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, r.URL.RequestURI()) })
	}
	s := rotatest.Session{Commands: groups, T: t, Addr: a.URL}
	for args, want := range map[string]string{
		"logs 7": "7/logs?stream=both", "logs 7.2": "7/logs?stream=both&worker=2",
		"logs 7 --worker 2 --stdout --stderr": "7/logs?stream=both&worker=2",
		"logs 7.2 --worker 2 --stdout":        "7/logs?stream=stdout&worker=2",
		"logs 7 --stderr":                     "7/logs?stream=stderr", "logs 12_4": "17/logs?stream=both",
		"logs 20.train.1":                    "21/logs?stream=both&worker=1",
		"log 7 -n 3 --attempt 2 --task main": "7/logs?attempt=2&stream=both&tail=3&task=main",
	} {
		if got := s.Run(strings.Fields(args)...); got.Code != 0 || got.Stdout != "/v1/jobs/"+want+"\n" {
			t.Errorf("rota %s: %+v", args, got)
		}
	}
	a.On("GET /v1/jobs/7/logs", interruptAfter(t))
	if got := s.Run("logs", "7", "-f"); got.Code != 0 || got.Stderr != "" {
		t.Errorf("Ctrl-C: %+v", got)
	}
}

// TestWhyInWords notices a reason of another state, and advice where there is nothing to do.
func TestWhyInWords(t *testing.T) {
	for want, j := range map[string]api.Job{
		"it is not pending: all of its tasks have started":   {Code: model.Running, Array: api.ArrayPlace{Size: 3}},
		"it is not pending: some of its groups have started": {Code: model.Running, Groups: []api.GroupState{{ID: 8}}},
		"it has ended as NODE_FAIL":                          {Code: model.NodeFailed, State: "NODE_FAIL"},
		"NonZeroExitCode: it failed, exit code 3": {Code: model.Failed,
			Reason: api.Reason{Code: "NonZeroExitCode", Text: "it failed"}, ExitCode: 3},
		"it was cancelled": {Code: model.Cancelled},
		"it was cancelled: the disk is full": {Code: model.Cancelled,
			Reason: api.Reason{Text: "the disk is full"}},
		"it is starting on gpu[01-02]": {Code: model.Configuring, Nodes: []string{"gpu01", "gpu02"}},
		"it is stopping on gpu01":      {Code: model.Completing, Nodes: []string{"gpu01"}},
		"Signal: it was ended by a signal, signal 9": {Code: model.Failed, Reason: api.Reason{Code: "Signal",
			Text: "it was ended by a signal"}, Signal: 9},
		"OutOfMemory: it used more memory than it asked for.": {Code: model.OutOfMemory,
			Reason: api.Reason{Code: "OutOfMemory", Text: "it used more memory than it asked for."}, ExitCode: 1},
	} {
		if got := notWaiting(&j, true); got != want {
			t.Errorf("%+v: %q, want %q", j, got, want)
		}
	}
	a := rotatest.NewAnswers(t)
	a.Give("GET /v1/jobs/7/why", api.Why{ID: 7})
	s := rotatest.Session{Commands: groups, T: t, Addr: a.URL}
	if got := s.Run("why", "7"); got.Code != 0 || got.Stdout != "Job 7: it is not pending\n" {
		t.Errorf("a job that has gone meanwhile: %+v", got)
	}
	var why api.Why
	got := s.Run("why", "7", "-o", "json")
	if err := json.Unmarshal([]byte(got.Stdout), &why); err != nil || why.ID != 7 {
		t.Errorf("as JSON: %+v, %v", got, err)
	}
}
