package script

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/jobspec/script/slurm"
)

// asked is what the flags ask for.
type asked struct {
	*notes
	opts   *Options
	result *Result
	job    *jobspec.Job
	said   map[string]setting // the flags that were carried out, by name

	name, stdout, stderr, mode    string
	exports                       []string
	env                           map[string]string
	imageDir                      string
	mounted                       []jobspec.Mount
	noRequeue, wholeNodes, listed setting
	killSignal                    string
	killSeconds                   jobspec.Seconds
	goOn                          bool // tasks go on when others fail
	seeAll                        bool // every task sees all GPUs of its worker

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
	limit, unlimited, ok := slurm.TimeLimit(s.value)
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

// take reports a value that is not taken, and whether it was.
func (a *asked) taken(s setting, err *slurm.Error) bool {
	switch {
	case err == nil:
		return true
	case err.Unsupported:
		a.refuse(s, err.Hint, "%s", err.Text)
	default:
		a.bad(s, err.Hint, "%s", err.Text)
	}
	return false
}

func (a *asked) signal(s setting) {
	signal, ahead, err := slurm.Signal(s.value)
	if !a.taken(s, err) {
		return
	}
	a.killSignal, a.killSeconds = signal, ahead
	a.warn(s, "%s is sent at the time limit and when the job must give way, and its processes have %v from then; Slurm sends it that long before the limit", signal, ahead)
}

func (a *asked) dependency(s setting) {
	list, err := slurm.Dependencies(s.value)
	if a.job.Dependencies = nil; a.taken(s, err) {
		a.job.Dependencies = list
	}
}

func (a *asked) invalidDependency(s setting) {
	switch strings.ToLower(s.value) {
	case "yes", "true", "1":
		a.job.OnDependencyFailure = "cancel"
	case "no", "false", "0":
		a.job.OnDependencyFailure = "hold"
	default:
		a.bad(s, "write yes or no", "%q is neither yes nor no", s.value)
	}
}

// image reads the directory of a root file system.
func (a *asked) image(s setting) {
	switch ext := path.Ext(s.value); {
	case !path.IsAbs(s.value):
		a.refuse(s, "unpack the image and give the absolute path of its root file system", "%q: images are not pulled from registries", s.value)
	case slices.Contains([]string{".sqsh", ".squashfs", ".sif", ".simg", ".tar"}, ext):
		a.refuse(s, "unpack the image and give the directory: unsquashfs -d DIR FILE", "%q: image files are not mounted", s.value)
	default:
		a.imageDir = s.value
	}
}

func (a *asked) mounts(s setting) {
	list, err := slurm.Mounts(s.value)
	a.taken(s, err)
	a.mounted = list
}
