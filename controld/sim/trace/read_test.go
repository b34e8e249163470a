package trace

import (
	"bytes"
	"compress/gzip"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/sim/trace/field"
)

var update = flag.Bool("update", false, "rewrite golden files")

// golden compares got with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; got:\n%s", path, got)
	}
}

// dump writes a trace so that a reader can check a golden file against the input.
func dump(t *Trace) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s epoch=%d jobs=%d bad=%d\n", t.Name, t.Format, t.Epoch, len(t.Jobs), t.Bad)
	for i := range t.Jobs {
		b.WriteString(dumpJob(&t.Jobs[i]))
	}
	for _, l := range t.Skipped {
		fmt.Fprintln(&b, l)
	}
	return b.String()
}

func dumpJob(j *Job) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d: %s %s %s/%s at %d work %d: %d x (%dc %v %dmg)", j.Line, j.ID, j.Class, j.Account, j.User,
		j.Submit, j.Work, j.Workers,
		j.Request.Cores, j.Request.Memory, j.Request.GPUs)
	for _, f := range []struct {
		what string
		v    any
		show bool
	}{
		{"name", j.Name, j.Name != ""}, {"qos", j.QoS, j.QoS != ""}, {"app", j.App, j.App != ""}, {"batch", j.Batch,
			j.Batch != 0},
		{"steps", j.Steps, j.Steps != 0}, {"progress", j.Progress, j.Progress != 0}, {"grace", j.Grace,
			j.Grace != Unknown}, {"restart", j.Restart, j.Restart != Unknown},
		{"limit", j.Limit, j.Limit != 0}, {"estimate", j.Estimate, j.Estimate != 0}, {"priority", j.Priority,
			j.Priority != MidPriority},
		{"min", j.MinWorkers, j.Elastic()}, {"max", j.MaxWorkers, j.Elastic()}, {"pernode", j.PerNode, j.PerNode != 0},
		{"servers", j.Servers, j.Servers != 0}, {"models", j.Models, len(j.Models) > 0}, {"unplaced", true, j.Unplaced},
		{"locality", j.Locality, j.Locality != Locality{}}, {"saves", j.Saves, j.Saves != ""}, {"every", j.Every,
			j.Every != 0},
	} {
		if f.show {
			fmt.Fprintf(&b, " %s=%v", f.what, f.v)
		}
	}
	if j.Scaling != nil {
		b.WriteString(" rates=")
		for n := 1; n <= min(8, j.MaxWorkers); n++ {
			fmt.Fprintf(&b, "%d,", j.Scaling.Rate(Layout{PerNode: []int{n}}))
		}
	}
	return b.String() + "\n"
}

// Any table may say what a job trains, and whether it can be suspended.
func TestNetworksOfJobs(t *testing.T) {
	const head = "job_id,num_gpu,submit_time,model_name,duration,network,pauses\n"
	tr, err := Read(strings.NewReader(head+"1,1,0,alexnet,60,vae,yes\n2,1,0,alexnet,60,,\n3,1,0,alexnet,60,vae,no\n"+
		"4,1,0,alexnet,60,vae,perhaps\n"), Options{Name: "t"})
	if err != nil {
		t.Fatal(err)
	}
	if len(tr.Jobs) != 3 || tr.Jobs[0].Model != "vae" || !tr.Jobs[0].Pauses || tr.Jobs[1].Model != "" ||
		tr.Jobs[1].Pauses || tr.Jobs[2].Pauses {
		t.Errorf("jobs %+v", tr.Jobs)
	}
	if len(tr.Skipped) != 1 || !strings.Contains(tr.Skipped[0].String(),
		`line 5: column pauses: "perhaps" is neither yes nor no`) {
		t.Errorf("left out: %v", tr.Skipped)
	}
}

func open1(t *testing.T, name string) io.Reader {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return bytes.NewReader(b)
}

// toyProfiles are the profiles of one small application.
func toyProfiles(t *testing.T) *Profiles {
	t.Helper()
	p := &Profiles{}
	for _, name := range []string{"placements.csv", "scalability.csv", "validation-64.csv", "validation-128.csv"} {
		if err := p.Add("toy/"+name, open1(t, "sia/"+name)); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// TestFormats reads an input of each format, recognises its format, and compares with a golden file
// that was checked by hand.
func TestFormats(t *testing.T) {
	for _, test := range []struct {
		file   string
		format Format
	}{
		{"fitgpp.csv", FitGpp},
		{"columns.csv", FitGpp},
		{"philly.csv", Philly},
		{"log.swf", SWF},
		{"openb.csv", OpenB},
		{"tiresias.csv", Tiresias},
		{"sia/work.csv", Sia},
		{"history.json", History},
		{"list.json", History},
	} {
		t.Run(test.file, func(t *testing.T) {
			got, err := Read(open1(t, test.file), Options{Name: test.file, Profiles: toyProfiles(t)})
			if err != nil {
				t.Fatal(err)
			}
			if got.Format != test.format {
				t.Errorf("read as %s, not %s", got.Format, test.format)
			}
			for i := range got.Jobs {
				if err := got.Jobs[i].Check(); err != nil {
					t.Errorf("line %d: %v", got.Jobs[i].Line, err)
				}
			}
			golden(t, test.file+".golden", dump(got))
		})
	}
}

// TestGzip reads the same with and without gzip, and with a byte order mark, and reports broken
// gzip data.
func TestGzip(t *testing.T) {
	plain, err := io.ReadAll(open1(t, "fitgpp.csv"))
	if err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	z.Write(plain)
	z.Close()
	want, err := Read(bytes.NewReader(plain), Options{})
	if err != nil {
		t.Fatal(err)
	}
	for name, input := range map[string][]byte{"gzip": packed.Bytes(), "mark": append([]byte("\ufeff"), plain...),
		"crlf": bytes.ReplaceAll(plain, []byte("\n"), []byte("\r\n"))} {
		got, err := Read(bytes.NewReader(input), Options{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if dump(got) != dump(want) {
			t.Errorf("%s: differs:\n%s", name, dump(got))
		}
	}
	for _, cut := range []int{5, packed.Len() / 2, packed.Len() - 4} {
		if _, err := Read(bytes.NewReader(packed.Bytes()[:cut]), Options{}); !errors.Is(err, errCut) {
			t.Errorf("a file cut at byte %d of %d: %v", cut, packed.Len(), err)
		}
	}
}

// TestRefused has inputs of which nothing can be used.
func TestRefused(t *testing.T) {
	head := strings.Join(fitgppColumns, ",") + "\n"
	for _, test := range []struct {
		name, input string
		format      Format
		want        string // part of the message
		is          error
	}{
		{"empty", "", "", "no job", ErrNoJobs},
		{"blank lines", "\n \n\n", "", "no job", ErrNoJobs},
		{"empty table", "", Philly, "no job", ErrNoJobs},
		{"blank table", "\n \n", FitGpp, "no job", ErrNoJobs},
		{"many blank lines and prose", strings.Repeat("\n", 2*peekBytes) + "prose", "", "known", ErrFormat},
		{"prose", "this is no trace\n", "", `the first line is "this is no trace"`, ErrFormat},
		{"unknown format", head, "slurm", `"slurm"`, ErrFormat},
		{"header only", head, "", "no job", ErrNoJobs},
		{"only bad lines", head + "0,BE,u,0,1,1,1,0,0\n", "", "line 2: the run time is zero", ErrNoJobs},
		{"unknown column", strings.Join(fitgppColumns, ",") + ",colour\n", "",
			`line 1: unknown column "colour": the columns are job_id`, nil},
		{"column twice", head[:len(head)-1] + ",gpus\n", "", `column "gpus" is given twice`, nil},
		{"misspelt column", strings.Replace(head, "cpus", "cpu", 1), "", `unknown column "cpu"`, nil},
		{"missing column", "job_id,class\n", FitGpp, `column "user" is missing`, nil},
		{"wrong format", head + "0,BE,u,0,1,1,1,5,0\n", Philly, `unknown column "job_id"`, nil},
		{"swf of another length", "1 2 3\n", SWF, "3 fields, not 18", ErrNoJobs},
		{"history without jobs", `{"items":[]}`, "", "no job", ErrNoJobs},
		{"history cut in a list", "{\n\"items\": [\n{\"id\": 1}, {\"id\":\n", "",
			"the input ends within the job that begins on line 1", nil},
		{"a table is no history", "1,te,3\r\n2,be,4\r\n", History,
			"2 lines could not be used; the first was line 1: the input is neither a job nor a list of jobs: 1,te,3: ",
			ErrNoJobs},
		{"history cut in its last line", "{\"id\": 1}\n{\"id\": 2", "", "2 lines could not be used", ErrNoJobs},
		{"history of numbers", `{"items":[1,2]}`, "", "line 1", ErrNoJobs},
		{"sia without profiles", "name,time,application,num_replicas,batch_size\na,1,bert,1,12\n", "",
			"measured speeds of its applications are missing", ErrNoProfiles},
	} {
		_, err := Read(strings.NewReader(test.input), Options{Format: test.format})
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want one with %q", test.name, err, test.want)
		}
		if test.is != nil && !errors.Is(err, test.is) {
			t.Errorf("%s: error %v is not %v", test.name, err, test.is)
		}
	}
}

// TestTimesFromAnEpoch: times may count from 1970 or any other epoch, and mean the same as times
// from the first job. A wild time costs its own line only.
func TestTimesFromAnEpoch(t *testing.T) {
	const late = "1600000000"
	for _, f := range []struct {
		format     Format
		head, line string // with a %s for each time
		minutes    bool
	}{
		{FitGpp, strings.Join(fitgppColumns, ",") + "\n", "%[1]s,BE,u,%[2]s,1,1,1,5,0\n", true},
		{SWF, "; UnixStartTime: 0\n", "%[1]s %[2]s 0 60 1 -1 -1 1 60 -1 1 1 1 -1 -1 1 -1 -1\n", false},
		{OpenB, "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time," +
			"scheduled_time\n",
			"%[1]s,1000,1024,1,1000,,LS,Succeeded,%[2]s,1600001000,%[2]s\n", false},
		{Tiresias, "job_id,num_gpu,submit_time,model_name,duration\n", "%[1]s,1,%[2]s,vgg,60\n", false},
		{Sia, "name,time,application,num_replicas,batch_size\n", "toy-%[1]s,%[2]s,toy,1,64\n", false},
	} {
		first, second := late, late[:len(late)-2]+"60" // a minute, or an hour
		if f.minutes {
			first, second = "26666666", "26666726"
		}
		text := f.head
		for i, at := range []string{first, second, "0", "99999999999999"} {
			text += fmt.Sprintf(f.line, fmt.Sprint(i), at)
		}
		got, err := Read(strings.NewReader(text), Options{Format: f.format, Profiles: toyProfiles(t)})
		if err != nil {
			t.Errorf("%s: %v", f.format, err)
			continue
		}
		apart := int64(60) * 1000
		if f.minutes {
			apart *= 60
		}
		if len(got.Jobs) != 2 || got.Bad != 2 || got.Jobs[0].Submit != 0 || got.Jobs[1].Submit != apart || got.Epoch == 0 {
			t.Errorf("%s: %s", f.format, dump(got))
		}
	}
	wild := strings.Join(fitgppColumns, ",") + "\n0,BE,u,0,1,1,1,5,0\n1,BE,u,26666666,1,1,1,5,0\n"
	if got, err := Read(strings.NewReader(wild), Options{}); err != nil || len(got.Jobs) != 1 || got.Bad != 1 ||
		!strings.Contains(got.Skipped[0].Why, "ten years") {
		t.Errorf("%v, %+v", err, got)
	}
}

// failing is a reader that breaks after some bytes.
type failing struct{ r io.Reader }

var errBroken = errors.New("the disk is broken")

func (f failing) Read(b []byte) (int, error) {
	n, err := f.r.Read(b)
	if errors.Is(err, io.EOF) {
		err = errBroken
	}
	return n, err
}

// TestReadError: a read error is not the end of the trace.
func TestReadError(t *testing.T) {
	for _, file := range []string{"fitgpp.csv", "log.swf", "history.json"} {
		if _, err := Read(failing{open1(t, file)}, Options{}); !errors.Is(err, errBroken) {
			t.Errorf("%s: error %v, want %v", file, err, errBroken)
		}
	}
	if _, err := ReadNodes(failing{strings.NewReader("n1 4c\n")}); !errors.Is(err, errBroken) {
		t.Errorf("nodes: error %v, want %v", err, errBroken)
	}
}

// TestSkippedBounded counts all bad lines and keeps some, also very long ones.
func TestSkippedBounded(t *testing.T) {
	var b strings.Builder
	b.WriteString(strings.Join(fitgppColumns, ",") + "\n0,BE,u,0,1,1,1,5,0\n")
	b.WriteString(strings.Repeat("x", 3*maxLine) + "\n")
	for range MaxSkippedKept + 10 {
		b.WriteString("1,BE,u,0,1,1,1,0,0\n")
	}
	b.WriteString("2,BE,u,0,1,1,1,5,0\n")
	got, err := Read(strings.NewReader(b.String()), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Jobs) != 2 || got.Bad != MaxSkippedKept+11 || len(got.Skipped) != MaxSkippedKept {
		t.Errorf("%d jobs, %d bad, %d kept", len(got.Jobs), got.Bad, len(got.Skipped))
	}
	if l := got.Skipped[0]; l.N != 3 || !strings.Contains(l.Why, "longer than") || len(l.Text) > maxShown+4 {
		t.Errorf("the long line is kept as %d bytes: %d %s", len(l.Text), l.N, l.Why)
	}
	if got.Jobs[1].Line != MaxSkippedKept+14 {
		t.Errorf("the last job is on line %d", got.Jobs[1].Line)
	}
}

// TestSkippedIsPlain: the text of a bad line neither moves the cursor of a terminal nor ends in
// half a character.
func TestSkippedIsPlain(t *testing.T) {
	head := strings.Join(fitgppColumns, ",") + "\n0,BE,u,0,1,1,1,5,0\n"
	for bad, want := range map[string]string{
		"1\x1b[2J,BE,\tu,x,1,1,1,5,0\n":                    "1?[2J,BE, u,x,1,1,1,5,0",
		"2,BE,\xff" + strings.Repeat("é", 200) + ",,,,,\n": "2,BE,\ufffd" + strings.Repeat("é", (maxShown-6)/2) + "…",
	} {
		got, err := Read(strings.NewReader(head+bad), Options{})
		if err != nil || len(got.Skipped) != 1 || got.Skipped[0].Text != want {
			t.Errorf("%q: %v, %+q instead of %+q", bad, err, got.Skipped, want)
		}
	}
	if got := field.Shorten(strings.Repeat("é", 30)); got != strings.Repeat("é", 20)+"…" {
		t.Errorf("shortened to %q", got)
	}
	if got := field.Shorten("x" + strings.Repeat("é", 30)); got != "x"+strings.Repeat("é", 19)+"…" {
		t.Errorf("shortened to %q", got)
	}
}

// TestNodeGPUs cuts gangs into nodes of the size that the cluster has.
func TestNodeGPUs(t *testing.T) {
	got, err := Read(open1(t, "philly.csv"), Options{NodeGPUs: 4})
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range got.Jobs {
		if j.Request.GPUs > 4*gpu || j.Request.GPUs < 4*gpu && j.Workers > 1 || j.PerNode != 1 {
			t.Errorf("line %d: %d workers of %d thousandths of a GPU", j.Line, j.Workers, j.Request.GPUs)
		}
	}
}

func TestAJobTooShortToBeSeenRunning(t *testing.T) {
	const record = `{"id":%d,"name":"a","user":"u","class":"be","code":%q,"submitted":"2026-11-21T10:00:00Z",%s` +
		`"ended":"2026-11-21T10:00:01Z","workers":1,"cores":1,"memory":67108864,"gpus":0}`
	const atOnce = `"started":"2026-11-21T10:00:01Z",` +
		`"attempts":[{"start":"2026-11-21T10:00:01Z","end":"2026-11-21T10:00:01Z"}],`
	text := fmt.Sprintf("["+record+","+record+","+record+"]", 1, "CD", "", 2, "CA", "", 3, "CD", atOnce)
	got, err := Read(strings.NewReader(text), Options{Name: "done.json"})
	if err != nil || len(got.Jobs) != 2 || got.Jobs[0].Work != 1 || got.Jobs[1].Work != 1 {
		t.Errorf("%+v, %v; want the completed ones, and not the one cancelled before it ran", got, err)
	}
}

// TestAnApplicationWithoutProfile costs the lines of its jobs only.
func TestAnApplicationWithoutProfile(t *testing.T) {
	const text = "name,time,application,num_replicas,batch_size\na,1,bert,1,12\n"
	_, err := Read(strings.NewReader(text), Options{Profiles: &Profiles{}})
	if !errors.Is(err, ErrNoJobs) || !strings.Contains(err.Error(), `line 2: no profile of application "bert"`) {
		t.Error(err)
	}
}

func TestAccounts(t *testing.T) {
	p, err := Read(open1(t, "philly.csv"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(p.Accounts(), " "); got != "11cb48 6214e9 6c71a0" {
		t.Errorf("accounts %s", got)
	}
}
