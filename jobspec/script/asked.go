package script

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/rota-hpc/rota/jobspec"
)

// asked is what the flags ask for.
type asked struct {
	*notes
	opts   *Options
	result *Result
	job    *jobspec.Job
	said   map[string]setting // the flags that were carried out, by name

	name, stdout, stderr, mode            string
	exports                               []string
	env                                   map[string]string
	imageDir                              string
	mounted                               []jobspec.Mount
	noRequeue, wholeNodes, killed, listed setting
	killSignal                            string
	killSeconds                           jobspec.Seconds
	goOn                                  bool // tasks go on when others fail
	seeAll                                bool // every task sees all GPUs of its worker

	nodeCount, ntasks, perNode, perGPU      counted
	cpus, cpusPerGPU, minCPUs               counted
	gpus, gpusPerNode, gpusPerTask, gpuGres counted
	mem, memPerCPU, memPerGPU               sized
}

// counted is a number and who wrote it; n is 0 when nobody did.
type counted struct {
	n     int
	by    setting
	model string // of GPUs; "" any
}

// sized is a size and who wrote it.
type sized struct {
	n  jobspec.Bytes
	by setting
}

// mostNumber bounds what is counted before the job's own rules are asked: products of three cannot overflow.
const mostNumber = 1_000_000

func (a *asked) bad(s setting, hint, format string, args ...any) {
	a.about(Mistake, CodeValue, s, hint, format, args...)
}

func (a *asked) refuse(s setting, hint, format string, args ...any) {
	a.about(Refused, CodeNotHere, s, hint, format, args...)
}

func (a *asked) warn(s setting, format string, args ...any) {
	a.about(Warning, CodeChanged, s, "", format, args...)
}

// text1 reads a flag whose value is taken as it is.
func text1(field func(a *asked) *string) func(*asked, setting) {
	return func(a *asked, s setting) {
		if s.value == "" {
			a.about(Mistake, CodeNoValue, s, s.spec.example(), "needs a value")
			return
		}
		*field(a) = s.value
	}
}

// number reads a whole number of at least 1.
func (a *asked) number(s setting, value string) (int, bool) {
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 || n > mostNumber {
		a.bad(s, "", "%q is not a number from 1 to %d", value, mostNumber)
		return 0, false
	}
	return n, true
}

func count(field func(a *asked) *counted) func(*asked, setting) {
	return func(a *asked, s setting) {
		if n, ok := a.number(s, s.value); ok {
			*field(a) = counted{n: n, by: s}
		}
	}
}

func size(field func(a *asked) *sized) func(*asked, setting) {
	return func(a *asked, s setting) {
		n, err := memory(s.value)
		switch {
		case err != nil:
			a.bad(s, "write a number with K, M, G or T behind it, such as 64G; without one it is MiB", "%q is not a size", s.value)
		case n == 0 && s.spec.Name == "mem":
			a.refuse(s, "write how much the job needs", "0, all memory of a node, cannot be asked for")
		case n == 0:
			a.bad(s, "", "%q is no memory at all", s.value)
		default:
			*field(a) = sized{n, s}
		}
	}
}

// memory reads a size of Slurm's: a number of MiB, or with K, M, G, T behind it.
func memory(text string) (jobspec.Bytes, error) {
	if text != "" && strings.Trim(text, "0123456789") == "" {
		if strings.Trim(text, "0") == "" {
			return 0, nil
		}
		text += "M"
	}
	upper := strings.ToUpper(text)
	for _, long := range []string{"IB", "B"} {
		if short, found := strings.CutSuffix(upper, long); found && strings.IndexAny(short, "KMGT") == len(short)-1 && short != "" {
			upper = short
			break
		}
	}
	return jobspec.ParseSize(upper)
}

// gpus reads [MODEL:]N.
func gpus(field func(a *asked) *counted) func(*asked, setting) {
	return func(a *asked, s setting) {
		if strings.Contains(s.value, ",") {
			a.refuse(s, "ask for GPUs of one model", "asks for GPUs of several models, which a worker cannot have")
			return
		}
		model, number, typed := cutLast(s.value, ":")
		if !typed {
			model, number = "", s.value
		}
		if n, ok := a.number(s, number); ok && a.isModel(s, model) {
			*field(a) = counted{n, s, model}
		}
	}
}

func cutLast(text, sep string) (before, after string, found bool) {
	i := strings.LastIndex(text, sep)
	if i < 0 {
		return text, "", false
	}
	return text[:i], text[i+len(sep):], true
}

// isModel refuses what can be no model of GPUs.
func (a *asked) isModel(s setting, model string) bool {
	if model != "" && !jobspec.ValidName(model) {
		a.bad(s, "write a100:4, or 4 for any model", "%q is not a model of GPUs", cutShort(model))
		return false
	}
	return true
}

// gres reads gpu, gpu:N, gpu:MODEL and gpu:MODEL:N; several kinds stand apart by commas.
func (a *asked) gres(s setting) {
	a.gpuGres = counted{by: s}
	for item := range strings.SplitSeq(s.value, ",") {
		item = strings.TrimPrefix(item, "gres/")
		if cut := strings.Index(item, "("); cut >= 0 {
			item = item[:cut]
		}
		kind, rest, more := strings.Cut(item, ":")
		switch {
		case strings.EqualFold(s.value, "none"):
		case kind == "":
			a.bad(s, "write gpu:4 or gpu:a100:4", "%q names nothing", s.value)
		case kind == "help":
			a.bad(s, "rota nodes shows the GPUs of the nodes", "help is not given here")
		case kind != "gpu":
			a.refuse(s, "only GPUs are counted: write gpu:N, or leave it out", "asks for %q", kind)
		case a.gpuGres.n > 0:
			a.refuse(s, "ask for GPUs of one model", "asks for GPUs of several models, which a worker cannot have")
		default:
			a.gpuGresOf(s, rest, more)
		}
	}
}

func (a *asked) gpuGresOf(s setting, rest string, more bool) {
	model, number, typed := cutLast(rest, ":")
	switch {
	case !more:
		model, number = "", "1"
	case !typed && rest != "" && strings.Trim(rest, "0123456789") == "":
		model, number = "", rest
	case !typed:
		model, number = rest, "1"
	}
	if number == "0" {
		return
	}
	if n, ok := a.number(s, number); ok && a.isModel(s, model) {
		a.gpuGres = counted{n, s, model}
	}
}

// nodes reads N or MIN-MAX.
func (a *asked) nodes(s setting) {
	low, high, isRange := strings.Cut(s.value, "-")
	if !isRange {
		high = low
	}
	if strings.ContainsAny(s.value, ",:") {
		a.refuse(s, "write one number", "%q: a choice between numbers of nodes cannot be made", s.value)
		return
	}
	from, ok := a.number(s, low)
	to, okTo := a.number(s, high)
	switch {
	case !ok || !okTo:
	case to < from:
		a.bad(s, "", "%q: the most is less than the least", s.value)
	case to > from:
		a.refuse(s, fmt.Sprintf("write --nodes=%d", from), "%q: the number of nodes cannot be left open", s.value)
		a.nodeCount = counted{n: from, by: s}
	default:
		a.nodeCount = counted{n: from, by: s}
	}
}

func (a *asked) partition(s setting) {
	if strings.Contains(s.value, ",") {
		a.refuse(s, "name one queue", "%q: a job is in one queue", s.value)
		s.value, _, _ = strings.Cut(s.value, ",")
	}
	text1(func(a *asked) *string { return &a.job.Queue })(a, s)
}

func (a *asked) qos(s setting) {
	switch class := jobspec.Class(strings.ToLower(s.value)); {
	case class == jobspec.TE || class == jobspec.BE:
		a.job.Class = class
	case s.given == "--class":
		a.bad(s, "write te (trial and error) or be (best effort)", "%q is not a class", s.value)
	default:
		a.about(Warning, CodeIgnored, s, "write --qos=te for a short job that goes first, be for any other", "is left out: %q is not one of the classes te and be", s.value)
	}
}

func (a *asked) priority(s setting) {
	n, err := strconv.Atoi(s.value)
	if err != nil || n < 0 || n > 100 {
		a.bad(s, "50 is what a job has without it", "%q is not a number from 0 to 100", s.value)
		return
	}
	a.job.Priority = &n
}

func (a *asked) time(s setting) {
	limit, unlimited, ok := timeLimit(s.value)
	switch {
	case !ok:
		a.bad(s, "write minutes, MM:SS, HH:MM:SS, D-HH, D-HH:MM or D-HH:MM:SS; 30m and 2d12h are understood too", "%q is not a time", s.value)
	case limit > jobspec.MaxDuration:
		a.bad(s, "", "%q is longer than %v", s.value, jobspec.MaxDuration)
	case unlimited:
		a.warn(s, "%s: the job gets the longest time that its queue gives by itself", s.value)
		a.job.TimeLimit = 0
	default:
		a.job.TimeLimit = limit
	}
}

func (a *asked) array(s setting) {
	array, err := jobspec.ParseSlurmArray(s.value)
	if err != nil {
		hint := "write numbers and ranges, and %N for N at once: 0-99:2%8"
		if bad, ok := err.(*jobspec.IndicesError); ok { //nolint:errorlint // the function returns no other
			hint = strings.ReplaceAll(bad.Hint, "max_parallel = ...", "%N at the end")
		}
		a.bad(s, hint, "%q: %v", cutShort(s.value), err)
		return
	}
	a.job.Array = array
}

func cutShort(text string) string {
	if len(text) > 60 {
		return text[:60] + "..."
	}
	return text
}

func (a *asked) chdir(s setting) {
	switch {
	case s.value == "":
		a.about(Mistake, CodeNoValue, s, s.spec.example(), "needs a value")
	case path.IsAbs(s.value):
		a.job.Workdir = path.Clean(s.value)
	case a.opts.Dir == "":
		a.bad(s, "start it with /", "%q is not an absolute path", s.value)
	default:
		a.job.Workdir = path.Join(a.opts.Dir, s.value)
	}
}

func (a *asked) input(s setting) {
	if s.value != "/dev/null" {
		a.refuse(s, "write < FILE behind the command that reads it", "%q: a script's standard input is /dev/null", s.value)
	}
}

func (a *asked) openMode(s setting) {
	switch s.value {
	case "append", "a":
		a.mode = "append"
	case "truncate", "t":
		a.mode = "truncate"
	default:
		a.bad(s, "write append or truncate", "%q is not a mode", s.value)
	}
}

// export reads ALL, NONE, names, and names with values.
func (a *asked) export(s setting) {
	a.exports, a.env = []string{}, map[string]string{}
	for item := range strings.SplitSeq(s.value, ",") {
		name, value, has := strings.Cut(item, "=")
		switch {
		case strings.EqualFold(item, "ALL"):
			if !slices.Contains(a.exports, "*") {
				a.exports = append([]string{"*"}, a.exports...)
			}
		case strings.EqualFold(item, "NONE") || strings.EqualFold(item, "NIL"):
			if s.value != item {
				a.bad(s, "write NONE alone, or the names alone", "%q: %s goes with nothing else", s.value, item)
			}
		case item == "":
		case has:
			a.env[name] = value
		case len(a.exports) <= jobspec.MaxExport && !slices.Contains(a.exports, name):
			a.exports = append(a.exports, name)
		}
	}
}

// constraint reads features that must all be there.
func (a *asked) constraint(s setting) {
	if strings.ContainsAny(s.value, "|*[]()!") {
		a.refuse(s, "write features with & between them, or a constraint in a job file", "%q: only features that a node must all have can be asked for", s.value)
		return
	}
	a.job.Features = nil
	for feature := range strings.SplitSeq(strings.ReplaceAll(s.value, ",", "&"), "&") {
		if feature = strings.TrimSpace(feature); feature == "" {
			a.bad(s, "write a&b", "%q: a feature is missing", s.value)
			return
		}
		if len(a.job.Features) <= jobspec.MaxFeatures && !slices.Contains(a.job.Features, feature) {
			a.job.Features = append(a.job.Features, feature)
		}
	}
}

func (a *asked) nodelist(s setting) {
	if _, ok := a.hosts(s); ok {
		a.job.Nodes, a.listed = []string{s.value}, s
	}
}

func (a *asked) exclude(s setting) {
	if _, ok := a.hosts(s); ok {
		a.job.ExcludeNodes = []string{s.value}
	}
}

func (a *asked) hosts(s setting) ([]string, bool) {
	if strings.Contains(s.value, "/") {
		a.refuse(s, "name the nodes: gpu[01-04,07]", "%q: a file of nodes is not read", s.value)
		return nil, false
	}
	names, err := jobspec.ExpandNodes([]string{s.value})
	if err != nil {
		a.bad(s, "write names and ranges such as gpu[01-04,07]", "%q: %v", cutShort(s.value), err)
	}
	return names, err == nil
}

func (a *asked) exclusive(s setting) {
	switch s.value {
	case "":
		a.wholeNodes = s
	case "user", "mcs", "topo":
		a.refuse(s, "write --exclusive for whole nodes", "=%s: a node that is shared with some jobs only cannot be asked for", s.value)
	default:
		a.bad(s, "write --exclusive", "%q is not known", s.value)
	}
}

func (a *asked) gpuBind(s setting) {
	if a.seeAll = s.value == "none"; !a.seeAll {
		a.about(Warning, CodeIgnored, s, "use --gpus-per-task to let each task see its own GPUs", "is left out: tasks see their own GPUs with --gpus-per-task, and all GPUs of their worker else")
	}
}

func (a *asked) killOnBadExit(s setting) {
	switch s.value {
	case "", "1":
		a.goOn = false
	case "0":
		a.goOn = true
	default:
		a.bad(s, "write 0 or 1", "%q is neither 0 nor 1", s.value)
	}
}

func (a *asked) wrap(s setting) {
	if s.line > 0 {
		a.about(Mistake, CodeConflict, s, "write the command into the script", "is for the command line, where it stands for a script")
	}
}

// signal reads [R|B:]SIG[@SECONDS].
func (a *asked) signal(s setting) {
	text := s.value
	if to, rest, found := strings.Cut(text, ":"); found {
		if strings.Trim(strings.ToUpper(to), "RB") != "" || to == "" {
			a.bad(s, "write B:USR1@120", "%q: %q is neither R nor B", s.value, to)
			return
		}
		text = rest
	}
	name, ahead, timed := strings.Cut(text, "@")
	seconds := 60
	if timed {
		n, err := strconv.Atoi(ahead)
		if err != nil || n < 0 || n > 65535 {
			a.bad(s, "", "%q: %q is not a number of seconds from 0 to 65535", s.value, ahead)
			return
		}
		seconds = max(n, 1)
	}
	signal, ok := signalName(name)
	if !ok {
		a.bad(s, "write one of USR1, USR2, TERM, INT, HUP, QUIT, ALRM, CONT and KILL", "%q: %q is not a signal that can stop a job", s.value, name)
		return
	}
	a.killed, a.killSignal, a.killSeconds = s, signal, jobspec.Seconds(seconds)
	a.warn(s, "%s is sent at the time limit and when the job must give way, and its processes have %v from then; Slurm sends it that long before the limit", signal, a.killSeconds)
}

// signalName reads USR1, SIGUSR1 or 10.
func signalName(text string) (string, bool) {
	byNumber := map[string]string{"1": "HUP", "2": "INT", "3": "QUIT", "9": "KILL", "10": "USR1", "12": "USR2", "14": "ALRM", "15": "TERM", "18": "CONT", "28": "WINCH"}
	name := strings.TrimPrefix(strings.ToUpper(text), "SIG")
	if known, ok := byNumber[name]; ok {
		name = known
	}
	for _, known := range byNumber {
		if name == known {
			return "SIG" + name, true
		}
	}
	return "", false
}

// image reads the directory of a root file system.
func (a *asked) image(s setting) {
	switch ext := path.Ext(s.value); {
	case !path.IsAbs(s.value):
		a.refuse(s, "unpack the image and give the absolute path of its root file system", "%q: images are not pulled from registries", s.value)
	case ext == ".sqsh" || ext == ".squashfs" || ext == ".sif" || ext == ".simg" || ext == ".tar":
		a.refuse(s, "unpack the image and give the directory: unsquashfs -d DIR FILE", "%q: image files are not mounted", s.value)
	default:
		a.imageDir = s.value
	}
}

// mounts reads SOURCE[:TARGET[:FLAGS]] with commas between them.
func (a *asked) mounts(s setting) {
	a.mounted = nil
	for item := range strings.SplitSeq(s.value, ",") {
		parts := strings.Split(item, ":")
		m := jobspec.Mount{Source: parts[0], Target: parts[len(parts)-1]}
		if len(parts) > 1 {
			m.Target = parts[1]
		}
		if len(parts) > 3 || m.Source == "" || m.Target == "" {
			a.bad(s, "write /source:/target or /source:/target:ro", "%q is not a mount", item)
			return
		}
		if len(parts) == 3 && !a.mountFlags(s, &m, parts[2]) {
			return
		}
		a.mounted = append(a.mounted, m)
	}
}

func (a *asked) mountFlags(s setting, m *jobspec.Mount, flags string) bool {
	for flag := range strings.SplitSeq(flags, "+") {
		switch flag {
		case "ro":
			m.ReadOnly = true
		case "rw", "rbind", "bind":
		default:
			a.refuse(s, "only ro and rw are known", "%q: a mount cannot have the flag %q", m.Source, flag)
			return false
		}
	}
	return true
}
